// Recomputation (after Chen et al., "Training deep nets with sublinear memory cost", 2016, but by greedy
// choice instead of segments). Vocabulary: the *peak* is the node at which most bytes of the arena are alive;
// a candidate is a cheap value that is alive there only because somebody reads it later. Its *recipe* is the
// cheap nodes that compute it again, just before that reader, from values that are alive there anyway.
//
// Each round takes the candidate that saves most bytes at the peak per flop and keeps it if the peak became
// lower, or as high at fewer nodes; so rounds end. A control edge from what its reader waits for keeps a copy
// from running early.
//
// Where there are phases, the peak is the end of that phase behind which most bytes are read.
#include <algorithm>
#include <set>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/recompute.h"
#include "trireme/graph/pass/rewrite.h"

namespace trireme::graph {
namespace {

// More flops per byte than this is no cheap value: elementwise ops, norms and moves are far below, matrix
// products above.
constexpr double kCheapFlopsPerByte = 4;

// A graph with its memory plan: what is alive when.
class Profile {
 public:
  static Result<Profile> make(const Graph& graph, bool outputs_are_pinned) {
    MemoryRequest request;
    if (outputs_are_pinned)
      for (const auto& [name, v] : graph.outputs()) request.pinned.push_back(v);
    TR_ASSIGN_OR_RETURN(const MemoryResult memory, plan_memory(graph, request));
    Profile profile(graph, memory);
    profile.find_peak(graph);
    return profile;
  }
  // `ends`: the last nodes of phases, the last phase's left out.
  static Result<Profile> make_between(const Graph& graph, std::span<const std::int32_t> ends) {
    MemoryRequest request;
    for (const auto& [name, v] : graph.outputs()) request.pinned.push_back(v);
    TR_ASSIGN_OR_RETURN(const MemoryResult memory, plan_memory(graph, request));
    Profile profile(graph, memory);
    for (const std::int32_t end : ends) profile.look_behind(graph, end);
    return profile;
  }

  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int32_t peak() const { return peak_; }
  bool is_between_phases() const { return between_; }
  // What is alive at the peak was.
  std::int32_t made_before() const { return between_ ? peak_ + 1 : peak_; }
  // Smaller is better.
  std::pair<std::int64_t, std::int64_t> height() const { return {peak_bytes_, peak_count_}; }
  // The value whose storage `v` shares.
  Value root(Value v) const { return roots_[v]; }
  std::int32_t last_access(Value v) const { return last_[roots_[v]]; }
  bool in_arena(Value v) const { return bytes_[roots_[v]] > 0; }
  std::int64_t bytes(Value v) const { return bytes_[roots_[v]]; }

 private:
  Profile(const Graph& graph, const MemoryResult& memory)
      : roots_(graph),
        first_(graph, -1),
        last_(graph, -1),
        bytes_(graph, 0),
        arena_bytes_(memory.plan.arena_bytes) {
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
        const Value v{i, k};
        const auto& place = memory.plan.places[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
        roots_[v] = place.alias_of.is_null() ? v : roots_[place.alias_of];
        if (roots_[v] == v) first_[v] = i;
        if (place.offset >= 0)
          bytes_[roots_[v]] =
              std::max<std::int64_t>(bytes_[roots_[v]], static_cast<std::int64_t>(graph.type(v).num_bytes()));
        last_[roots_[v]] = i;
      }
      for (const Value v : node.inputs) last_[roots_[v]] = i;
    }
    for (const auto& [name, v] : graph.outputs()) last_[roots_[v]] = graph.size();
  }

  void find_peak(const Graph& graph) {
    std::vector<std::int64_t> change(static_cast<std::size_t>(graph.size()) + 2, 0);
    for (std::int32_t i = 0; i < graph.size(); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k) {
        const Value v{i, k};
        if (first_[v] < 0 || bytes_[v] == 0) continue;
        change[static_cast<std::size_t>(i)] += bytes_[v];
        change[static_cast<std::size_t>(last_[v]) + 1] -= bytes_[v];
      }
    std::int64_t alive = 0;
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      alive += change[static_cast<std::size_t>(i)];
      if (alive > peak_bytes_) peak_bytes_ = alive, peak_ = i, peak_count_ = 0;
      if (alive == peak_bytes_) ++peak_count_;
    }
  }

  // What nodes behind `end` read or write of earlier ones. The sum over all ends stands for the count.
  void look_behind(const Graph& graph, std::int32_t end) {
    std::int64_t kept = 0;
    for (std::int32_t i = 0; i <= end; ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k)
        if (const Value v{i, k}; first_[v] >= 0 && last_[v] > end) kept += bytes_[v];
    peak_count_ += kept;
    if (kept > peak_bytes_ || !between_) peak_bytes_ = kept, peak_ = end;
    between_ = true;
  }

  ValueMap<Value> roots_;
  ValueMap<std::int32_t> first_, last_;
  ValueMap<std::int64_t> bytes_;  // by root; 0: not in the arena
  std::int64_t arena_bytes_ = 0, peak_bytes_ = 0, peak_count_ = 0;
  std::int32_t peak_ = 0;
  bool between_ = false;
};

struct Candidate {
  Value value;
  std::int32_t reader = -1;          // the first node that reads it after the peak
  std::vector<std::int32_t> recipe;  // ascending, ends with the value's producer
  std::int64_t saved_bytes = 0;
  double flops = 0;
};

class Round : private Overview {
 public:
  Round(const Graph& graph, const Profile& profile)
      : Overview(graph, /*may_be_random=*/true), profile_(profile), mutations_(graph) {}

  // Best first.
  std::vector<Candidate> candidates() {
    std::vector<Candidate> found;
    for (std::int32_t i = 0; i < profile_.made_before(); ++i) {
      if (!is_cheap(i)) continue;
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(i).outputs.size()); ++k)
        if (auto c = candidate({i, k}); c && c->saved_bytes > 0) found.push_back(std::move(*c));
    }
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      return static_cast<double>(a.saved_bytes) * b.flops > static_cast<double>(b.saved_bytes) * a.flops;
    });
    return found;
  }

  Result<Graph> apply(const Candidate& c) const {
    Rewriter rewriter(graph_);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (i == c.reader) TR_RETURN_IF_ERROR(insert(rewriter, c));
      TR_RETURN_IF_ERROR(rewriter.copy(i).status());
    }
    return rewriter.finish();
  }

 private:
  double flops_of(std::int32_t id) const {
    const cost::OpCost cost = node_cost(graph_, id);
    return std::max({cost.flops, cost.bytes / 4, 1.0});  // moving an element counts as one
  }
  bool is_cheap(std::int32_t id) const {
    if (!movable(id) || graph_.node(id).inputs.empty()) return false;
    const cost::OpCost cost = node_cost(graph_, id);
    return cost.flops <= kCheapFlopsPerByte * cost.bytes;
  }

  std::optional<Candidate> candidate(Value v) const {
    const std::int32_t peak = profile_.peak();
    const auto& users = readers(v);
    const auto late = std::upper_bound(users.begin(), users.end(), peak);
    if (!profile_.in_arena(v) || late == users.end() || profile_.last_access(v) >= graph_.size()) return {};
    Candidate c;
    c.value = v;
    c.reader = *late;
    std::set<std::int32_t> recipe;
    std::set<std::pair<std::int32_t, std::int32_t>> kept;  // roots that must live on for the recipe
    if (!add_to_recipe(v.node, c.reader, recipe, kept)) return {};
    c.recipe.assign(recipe.begin(), recipe.end());
    for (const std::int32_t i : c.recipe) c.flops += flops_of(i);
    if (profile_.is_between_phases() || !is_touched_at_peak(v)) c.saved_bytes = profile_.bytes(v);
    for (const auto& [node, index] : kept) {
      const Value root{node, index};
      if (profile_.last_access(root) <= peak) c.saved_bytes -= profile_.bytes(root);
    }
    return c;
  }

  bool is_touched_at_peak(Value v) const {
    const Node& node = graph_.node(profile_.peak());
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](Value in) { return profile_.root(in) == profile_.root(v); });
  }

  // Nodes to run again before `reader` for the outputs of `id`. False: a value it needs has changed.
  bool add_to_recipe(std::int32_t id, std::int32_t reader, std::set<std::int32_t>& recipe,
                     std::set<std::pair<std::int32_t, std::int32_t>>& kept) const {
    if (!recipe.insert(id).second) return true;
    for (const Value v : graph_.node(id).inputs) {
      if (mutations_.between(v, id, reader)) return false;
      const auto& users = readers(v);
      const bool there =
          !profile_.in_arena(v) || users.back() >= reader || profile_.last_access(v) >= graph_.size();
      if (there) continue;
      if (is_cheap(v.node)) {
        if (!add_to_recipe(v.node, reader, recipe, kept)) return false;
      } else {
        kept.emplace(profile_.root(v).node, profile_.root(v).index);
      }
    }
    return true;
  }

  Status insert(Rewriter& rewriter, const Candidate& c) const {
    ValueMap<Value> again(graph_);
    std::int32_t anchor = -1;  // the last thing the reader waits for, other than the value itself
    for (const Value v : graph_.node(c.reader).inputs)
      if (v != c.value && !graph_.node(v.node).def->has(op::kFeed)) anchor = std::max(anchor, v.node);
    for (const std::int32_t id : c.recipe) {
      const Node& node = graph_.node(id);
      std::vector<Value> inputs;
      for (const Value v : node.inputs)
        inputs.push_back(again[v].is_null() ? rewriter.at(v) : Value(again[v]));
      TR_ASSIGN_OR_RETURN(const Value now, rewriter.add(*node.def, std::move(inputs), node.attrs,
                                                        node.name + "/again", node.site, node.forms));
      if (anchor > profile_.peak() && rewriter.moved(anchor) >= 0)
        rewriter.to().add_control(rewriter.moved(anchor), now.node);
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
        again[Value{id, k}] = {now.node, k};
    }
    rewriter.map(c.value, again[c.value]);
    return {};
  }

  const Profile& profile_;
  Mutations mutations_;
};

// The last node of each phase but the last. Copies of nodes stand in front of their readers, so they are of
// the phase that these are of.
std::vector<std::int32_t> ends_of(const Graph& graph, std::span<const std::vector<std::string>> phases) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false);
  std::vector<std::int32_t> ends;
  for (std::size_t p = 0; p + 1 < phases.size(); ++p) {
    for (const std::string& name : phases[p])
      if (const auto v = graph.find_output(name)) needed[static_cast<std::size_t>(v->node)] = true;
    std::int32_t last = ends.empty() ? -1 : ends.back();
    for (std::int32_t i = graph.size() - 1; i >= 0; --i) {
      if (!needed[static_cast<std::size_t>(i)]) continue;
      last = std::max(last, i);
      for (const Value v : graph.node(i).inputs) needed[static_cast<std::size_t>(v.node)] = true;
    }
    if (last >= 0) ends.push_back(last);
  }
  return ends;
}

}  // namespace

Result<Graph> recompute_between(const Graph& graph, std::span<const std::vector<std::string>> phases,
                                std::int64_t save_bytes) {
  Graph best = graph;
  TR_ASSIGN_OR_RETURN(Profile profile, Profile::make_between(best, ends_of(best, phases)));
  const std::int64_t limit = profile.peak_bytes() - save_bytes;
  for (bool found = true; found && profile.peak_bytes() > limit;) {
    Round round(best, profile);
    found = false;
    for (const Candidate& c : round.candidates()) {
      TR_ASSIGN_OR_RETURN(Graph next, round.apply(c));
      TR_ASSIGN_OR_RETURN(Profile now, Profile::make_between(next, ends_of(next, phases)));
      if (now.height() >= profile.height()) continue;
      best = std::move(next);
      profile = std::move(now);
      found = true;
      break;
    }
  }
  return best;
}

Result<Graph> recompute(const Graph& graph, std::int64_t limit_bytes, bool outputs_are_pinned) {
  Graph best = graph;
  TR_ASSIGN_OR_RETURN(Profile profile, Profile::make(best, outputs_are_pinned));
  const std::int64_t before = profile.arena_bytes();
  std::int64_t least = before;
  while (profile.arena_bytes() > limit_bytes) {
    Round round(best, profile);
    bool found = false;
    for (const Candidate& c : round.candidates()) {
      TR_ASSIGN_OR_RETURN(Graph next, round.apply(c));
      TR_ASSIGN_OR_RETURN(Profile now, Profile::make(next, outputs_are_pinned));
      if (now.height() >= profile.height()) continue;
      best = std::move(next);
      profile = std::move(now);
      least = std::min(least, profile.arena_bytes());
      found = true;
      break;
    }
    if (!found)
      return error(
          Code::kExhausted,
          "[graph] recompute: got {} bytes after recomputing what is cheap ({} before), expected at most "
          "{}; take a smaller batch or a higher limit",
          least, before, limit_bytes);
  }
  return best;
}

extern const PassRow kRecompute{
    .name = "recompute",
    .doc = "Computes cheap values again instead of keeping them, under a memory limit.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) -> Result<Graph> {
      if (o.memory_limit_bytes == 0) return g;
      return recompute(g, o.memory_limit_bytes);
    }};

}  // namespace trireme::graph
