// Memory planning. Vocabulary: a *storage* is memory that one or more Values share (by nature: reshape,
// mutators; by choice: in-place ops) or the workspace of a node; an *access* is a node that reads or writes
// it. Two storages may overlap when all accesses of one have ended before the first write of the other
// starts. Where there are phases, storages go to one of two *regions*: to scratch memory when all accesses
// lie in one phase, else to the arena. That is asked after the in-place choices: storages that one of these
// joined are one storage, with the accesses of both.
//
// In-place choices come first, in node order. Then storages are placed from the largest to the smallest, each
// into the tightest gap between the placed ones it conflicts with (greedy by size, Pisarchyk & Lee,
// "Efficient memory management for deep neural net inference", 2020). O(storages^2) conflict tests.
#include <algorithm>
#include <limits>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/strand_order.h"
#include "trireme/graph/storage.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::int64_t kAlign = 64;
std::int64_t align_up(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct Storage {
  std::int64_t bytes = 0;
  bool elsewhere = false;  // a feed or pinned
  bool to_the_end = false;
  std::int32_t first = -1;             // the node that writes first
  std::vector<std::int32_t> accesses;  // ascending, includes `first`
  // The last access of each strand: all that a conflict test looks at.
  std::vector<std::int32_t> last_per_strand;
  std::int32_t merged_into = -1;  // the storage that took this one over
  bool scratch = false;
  std::int64_t offset = -1;
};

// Storages that were placed in one memory, by offset.
struct Region {
  std::vector<const Storage*> by_offset;
  std::int64_t bytes = 0;
};

class Planner {
 public:
  Planner(const Graph& graph, const MemoryRequest& request, HappensBefore before,
          const ValueMap<Value>& roots)
      : graph_(graph),
        request_(request),
        before_(std::move(before)),
        roots_(roots),
        storage_of_(graph, -1),
        alias_(graph) {}

  MemoryResult run() {
    collect();
    for (std::int32_t i = 0; i < graph_.size(); ++i) try_in_place(i);
    add_workspaces();
    place_all();
    return result();
  }

 private:
  // One storage per root, with its accesses.
  void collect() {
    ValueMap<bool> pinned(graph_, false);
    for (const Value v : request_.pinned) pinned[v] = true;
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      const bool free = is_free(graph_, i, roots_);
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
        const Value v{i, k};
        if (roots_[v] != v) {
          storage_of_[v] = find(roots_[v]);
          alias_[v] = natural_alias(graph_, v);
          continue;
        }
        storage_of_[v] = static_cast<std::int32_t>(storages_.size());
        Storage s;
        s.bytes = align_up(static_cast<std::int64_t>(graph_.type(v).num_bytes()));
        s.elsewhere = node.def->has(op::kFeed) || pinned[v];
        s.first = i;
        if (!free) s.accesses.push_back(i);
        storages_.push_back(std::move(s));
      }
      if (free) continue;
      for (const Value v : node.inputs) access(at(v), i);
    }
    for (const auto& [name, v] : graph_.outputs()) at(v).to_the_end = true;
  }

  std::int32_t find(Value v) {
    std::int32_t s = storage_of_[v];
    while (storages_[static_cast<std::size_t>(s)].merged_into >= 0)
      s = storages_[static_cast<std::size_t>(s)].merged_into;
    storage_of_[v] = s;
    return s;
  }
  Storage& at(Value v) { return storages_[static_cast<std::size_t>(find(v))]; }
  static void access(Storage& s, std::int32_t node) {
    if (s.accesses.empty() || s.accesses.back() != node) s.accesses.push_back(node);
  }

  // Output 0 takes over the storage of input 0 when every other access of it has ended before this node.
  void try_in_place(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (!node.def->has(op::kInPlaceOk) || node.inputs.empty() || is_free(graph_, id, roots_)) return;
    const Value in = node.inputs[0], out{id, 0};
    if (roots_[out] != out || graph_.type(in) != graph_.type(out)) return;
    Storage &from = at(in), &to = at(out);
    if (from.elsewhere || from.to_the_end || to.elsewhere) return;
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (find(node.inputs[i]) == find(in) && !(node.forms.is_plain() && node.def->has(op::kElementwise) &&
                                                graph_.type(node.inputs[i]) == graph_.type(in)))
        return;
    for (const std::int32_t other : from.accesses)
      if (other != id && !before_(other, id)) return;
    for (const std::int32_t reader : to.accesses) access(from, reader);
    std::sort(from.accesses.begin(), from.accesses.end());
    from.accesses.erase(std::unique(from.accesses.begin(), from.accesses.end()), from.accesses.end());
    from.to_the_end = to.to_the_end;
    to.merged_into = find(in);
    alias_[out] = in;
  }

  void add_workspaces() {
    workspace_.assign(static_cast<std::size_t>(graph_.size()), -1);
    for (std::size_t i = 0; i < request_.workspace_bytes.size(); ++i) {
      if (request_.workspace_bytes[i] <= 0) continue;
      workspace_[i] = static_cast<std::int32_t>(storages_.size());
      Storage s;
      s.bytes = align_up(request_.workspace_bytes[i]);
      s.first = static_cast<std::int32_t>(i);
      s.accesses = {s.first};
      storages_.push_back(std::move(s));
    }
  }

  bool ends_before(const Storage& a, const Storage& b) const {
    if (a.to_the_end) return false;
    return std::all_of(a.last_per_strand.begin(), a.last_per_strand.end(),
                       [&](std::int32_t node) { return before_(node, b.first); });
  }

  bool lives_in_one_phase(const Storage& s) const {
    return !request_.phase.empty() && !s.to_the_end &&
           before_.phase(s.accesses.front()) == before_.phase(s.accesses.back());
  }

  void place_all() {
    std::vector<std::int32_t> order;
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      Storage& s = storages_[i];
      if (s.elsewhere || s.merged_into >= 0) continue;
      for (auto it = s.accesses.rbegin(); it != s.accesses.rend(); ++it)
        if (std::none_of(s.last_per_strand.begin(), s.last_per_strand.end(),
                         [&](std::int32_t n) { return before_.strand(n) == before_.strand(*it); }))
          s.last_per_strand.push_back(*it);
      s.scratch = lives_in_one_phase(s);
      order.push_back(static_cast<std::int32_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return storages_[static_cast<std::size_t>(a)].bytes > storages_[static_cast<std::size_t>(b)].bytes;
    });
    for (const std::int32_t i : order) {
      Storage& s = storages_[static_cast<std::size_t>(i)];
      place(s, s.scratch ? scratch_ : arena_);
    }
  }

  void place(Storage& s, Region& region) {
    std::int64_t best = -1, best_gap = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (const Storage* other : region.by_offset) {
      if (ends_before(*other, s) || ends_before(s, *other)) continue;
      const std::int64_t gap = other->offset - end;
      if (gap >= s.bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    s.offset = best >= 0 ? best : end;
    region.bytes = std::max(region.bytes, s.offset + s.bytes);
    const auto where =
        std::upper_bound(region.by_offset.begin(), region.by_offset.end(), &s,
                         [](const Storage* a, const Storage* b) { return a->offset < b->offset; });
    region.by_offset.insert(where, &s);
  }

  MemoryResult result() {
    MemoryResult r;
    r.plan.arena_bytes = arena_.bytes;
    r.plan.scratch_bytes = scratch_.bytes;
    r.plan.places.resize(static_cast<std::size_t>(graph_.size()));
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(i).outputs.size()); ++k)
        r.plan.places[static_cast<std::size_t>(i)].push_back(
            {at({i, k}).offset, alias_[Value{i, k}], at({i, k}).scratch});
    for (const std::int32_t w : workspace_)
      r.workspace_offsets.push_back(w < 0 ? -1 : storages_[static_cast<std::size_t>(w)].offset);
    return r;
  }

  const Graph& graph_;
  const MemoryRequest& request_;
  HappensBefore before_;
  const ValueMap<Value>& roots_;
  ValueMap<std::int32_t> storage_of_;
  ValueMap<Value> alias_;
  std::vector<Storage> storages_;
  std::vector<std::int32_t> workspace_;  // storage of each node's workspace, or -1
  Region arena_, scratch_;
};

}  // namespace

Result<MemoryResult> plan_memory(const Graph& graph, const MemoryRequest& request) {
  TR_CHECK(request.phase.empty() || (request.phase.size() == static_cast<std::size_t>(graph.size()) &&
                                     std::is_sorted(request.phase.begin(), request.phase.end())),
           "one phase per node, ascending");
  const ValueMap<Value> roots = storage_roots(graph, request.pinned);
  TR_ASSIGN_OR_RETURN(HappensBefore before, HappensBefore::make(graph, request, roots));
  return Planner(graph, request, std::move(before), roots).run();
}

}  // namespace trireme::graph
