// Which nodes are computed in chunks, and in which.
#include <algorithm>
#include <numeric>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/chunk.h"

namespace trireme::parallel {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using op::AxisCut;

constexpr int kFarthestProduct = 8;  // nodes between a collective and a product

bool is_product(const Node& node) { return node.def == &op::kMatmul; }
// Cheap nodes that may lie between a product and a collective.
bool is_between(const Node& node) {
  const op::OpDef* def = node.def;
  return def->has(op::kElementwise) || def->has(op::kRandom) || def == &op::kBiasAdd ||
         def == &op::kReshape || def == &op::kTranspose || def == &op::kCast;
}
bool mutates(const Graph& graph) {
  for (std::int32_t id = 0; id < graph.size(); ++id)
    if (graph.node(id).def->has(op::kMutates)) return true;
  return false;
}

class ChunkChooser {
 public:
  ChunkChooser(const Graph& graph, const ShardAxis& axis, const ChunkRequest& request)
      : graph_(graph),
        request_(request),
        samples_(graph, axis),
        users_(graph::users_of(graph)),
        is_member_(static_cast<std::size_t>(graph.size()), false) {
    plan_.axis = axis;
    plan_.nodes.resize(is_member_.size());
  }

  ChunkPlan run() {
    if (!request_.asks() || samples_.batch() == 0 || mutates(graph_)) return std::move(plan_);
    if (request_.scheme == FcScheme::kBroadcast)
      take_neighbors_of_products();
    else
      take_behind_gathers();
    for (const std::vector<std::int32_t>& group : connected()) add_region(group);
    if (!plan_.regions.empty()) place_nodes();
    return std::move(plan_);
  }

 private:
  auto at(std::int32_t id) { return is_member_.begin() + id; }
  bool is_member(std::int32_t id) const { return is_member_[static_cast<std::size_t>(id)]; }
  bool is_whole_product(std::int32_t id) const {
    return is_product(graph_.node(id)) && samples_.option(id) && samples_.option(id)->outputs[0].cuts();
  }
  bool has_own_inputs(std::int32_t id) const {
    const auto& in = graph_.node(id).inputs;
    return std::any_of(in.begin(), in.end(), [&](Value v) { return samples_.of(v).own; });
  }
  bool is_exchange(std::int32_t id) const {
    const Node& node = graph_.node(id);
    return node.def->family == "comm" && node.attrs.get_text("axis") == plan_.axis.name;
  }
  // Input i comes from a member that makes it in chunks.
  bool reads_chunks(std::int32_t id, std::size_t i) const {
    const Value v = graph_.node(id).inputs[i];
    return is_member(v.node) && samples_.of(v).is_there() && samples_.option(id)->inputs[i].cuts();
  }
  bool reads_chunks(std::int32_t id) const {
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i)
      if (reads_chunks(id, i)) return true;
    return false;
  }

  // ---- Behind a reshard of the batch

  void take_behind_gathers() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      if (!samples_.option(id)) continue;
      const SampleMove move = samples_.move(id);
      // Vertical: what positions do with their own samples has no chunks.
      const bool may =
          request_.scheme == FcScheme::kHorizontal || move != SampleMove::kNone || !has_own_inputs(id);
      *at(id) = move == SampleMove::kGather || (may && reads_chunks(id));
    }
    // Own samples are of interest on their way into the next gather only.
    for (std::int32_t id = graph_.size() - 1; id >= 0; --id)
      if (is_member(id) && samples_.move(id) == SampleMove::kNone && has_own_inputs(id))
        *at(id) = is_read(id);
  }

  // A member reads it in chunks.
  bool is_read(std::int32_t id) const {
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(id).outputs.size()); ++k)
      for (const std::int32_t user : users_[{id, k}])
        for (std::size_t i = 0; is_member(user) && i < graph_.node(user).inputs.size(); ++i)
          if (graph_.node(user).inputs[i] == Value{id, k} && reads_chunks(user, i)) return true;
    return false;
  }

  // ---- Next to products

  void take_neighbors_of_products() {
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      if (!is_exchange(id) || !samples_.option(id)) continue;
      const bool behind = take_makers(id, kFarthestProduct), before = take_readers(id, kFarthestProduct);
      if (behind || before) *at(id) = true;
    }
  }

  // Takes products that the samples of `id` come from, and what lies between.
  bool take_makers(std::int32_t id, int steps) {
    bool found = false;
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const Value v = graph_.node(id).inputs[i];
      if (!samples_.of(v).is_there() || !samples_.option(v.node)) continue;
      const bool is_way = steps > 0 && is_between(graph_.node(v.node)) && take_makers(v.node, steps - 1);
      if (!is_way && !is_whole_product(v.node)) continue;
      *at(v.node) = found = true;
    }
    return found;
  }
  // Takes products that read the samples of `id`, and what lies between.
  bool take_readers(std::int32_t id, int steps) {
    bool found = false;
    for (const std::int32_t user : users_[{id, 0}]) {
      if (!samples_.option(user)) continue;
      const bool is_way = steps > 0 && is_between(graph_.node(user)) && take_readers(user, steps - 1);
      if (!is_way && !is_whole_product(user)) continue;
      *at(user) = found = true;
    }
    return found;
  }

  // ---- Regions

  // Members that hand chunks to each other, each group ascending.
  std::vector<std::vector<std::int32_t>> connected() const {
    std::vector<std::int32_t> root(is_member_.size());
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&](std::int32_t id) {
      while (root[static_cast<std::size_t>(id)] != id) id = root[static_cast<std::size_t>(id)];
      return id;
    };
    for (std::int32_t id = 0; id < graph_.size(); ++id)
      for (std::size_t i = 0; is_member(id) && i < graph_.node(id).inputs.size(); ++i) {
        if (!reads_chunks(id, i)) continue;
        const std::int32_t a = find(id), b = find(graph_.node(id).inputs[i].node);
        root[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
      }
    std::vector<std::vector<std::int32_t>> groups(is_member_.size());
    for (std::int32_t id = 0; id < graph_.size(); ++id)
      if (is_member(id)) groups[static_cast<std::size_t>(find(id))].push_back(id);
    std::erase_if(groups, [](const auto& group) { return group.empty(); });
    return groups;
  }

  ChunkedNode in_samples(std::int32_t id) const {
    const Node& node = graph_.node(id);
    ChunkedNode chunked{.option = *samples_.option(id), .own_inputs = has_own_inputs(id)};
    chunked.move = samples_.move(id);
    chunked.exchanges = is_exchange(id);
    chunked.own_outputs = chunked.own_inputs;
    if (chunked.move != SampleMove::kNone) chunked.own_outputs = chunked.move == SampleMove::kScatter;
    const auto unit = [&](const AxisCut& cut, const TensorType& type, bool own) {
      return cut.cuts() ? samples_.unit_of(type.shape[cut.dim], own) : 0;
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      chunked.input_units.push_back(
          unit(chunked.option.inputs[i], graph_.type(node.inputs[i]), chunked.own_inputs));
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      chunked.output_units.push_back(unit(chunked.option.outputs[k], node.outputs[k], chunked.own_outputs));
    return chunked;
  }

  // The indices that a sample has in every cut operand of these nodes, if rows may be so much finer.
  static std::int64_t rows_of_sample(const std::vector<ChunkedNode>& nodes) {
    std::int64_t rows = 0;
    for (const ChunkedNode& n : nodes)
      for (const auto* units : {&n.input_units, &n.output_units})
        for (const std::int64_t unit : *units) rows = std::gcd(rows, unit);
    const auto fits = [rows](const std::vector<AxisCut>& cuts, const std::vector<std::int64_t>& units) {
      for (std::size_t i = 0; i < cuts.size(); ++i)
        if (cuts[i].cuts() && units[i] / rows % cuts[i].unit != 0) return false;
      return true;
    };
    for (const ChunkedNode& n : nodes)
      if (!fits(n.option.inputs, n.input_units) || !fits(n.option.outputs, n.output_units)) return 1;
    return rows;
  }

  // Nothing where there are fewer rows than chunks.
  ChunkRegion cut_rows(bool moves, std::int64_t rows_of_sample) const {
    ChunkRegion region;
    region.by_position = request_.scheme == FcScheme::kVertical;
    std::vector<std::int64_t> own{samples_.batch() * rows_of_sample};
    if (moves) {
      own = samples_.own();
      for (std::int64_t& rows : own) rows *= rows_of_sample;
    }
    const auto num_chunks =
        region.by_position || request_.chunks == 1 ? plan_.axis.num_parts : request_.chunks;
    if (own.back() < num_chunks || own.back() < 2) return region;  // the fewest rows
    region.rows.assign(static_cast<std::size_t>(num_chunks), std::vector<std::int64_t>(own.size(), 0));
    for (std::size_t p = 0; p < own.size(); ++p) {
      const std::vector<std::int64_t> parts = op::part_sizes(own[p], num_chunks);
      for (std::size_t k = 0; k < region.rows.size(); ++k)
        region.rows[k][p] = !region.by_position ? parts[k] : k == p ? own[p] : 0;
    }
    return region;
  }

  void add_region(const std::vector<std::int32_t>& group) {
    std::vector<ChunkedNode> nodes;
    bool multiplies = false, exchanges = false, moves = false;
    for (const std::int32_t id : group) {
      nodes.push_back(in_samples(id));
      multiplies = multiplies || is_product(graph_.node(id));
      exchanges = exchanges || is_exchange(id);
      moves = moves || nodes.back().own_inputs || nodes.back().own_outputs;
    }
    if (!multiplies || !exchanges) return;
    const std::int64_t rows = rows_of_sample(nodes);
    ChunkRegion region = cut_rows(moves, rows);
    if (region.rows.empty()) return;
    for (std::size_t n = 0; n < group.size(); ++n) {
      nodes[n].region = static_cast<int>(plan_.regions.size());
      for (auto* units : {&nodes[n].input_units, &nodes[n].output_units})
        for (std::int64_t& unit : *units) unit /= rows;
      const Node& node = graph_.node(group[n]);
      if (is_exchange(group[n]))
        plan_.moves.push_back({node.attrs.get_text("label"), node.def->name, region.num_chunks()});
      plan_.nodes[static_cast<std::size_t>(group[n])] = std::move(nodes[n]);
    }
    plan_.regions.push_back(std::move(region));
  }

  // ---- Order

  void place_nodes() {
    plan_.places.resize(plan_.nodes.size());
    std::vector<bool> is_needed(plan_.nodes.size(), false);
    for (std::int32_t id = graph_.size() - 1; id >= 0; --id) {
      const auto n = static_cast<std::size_t>(id);
      is_needed[n] = is_needed[n] || plan_.nodes[n].exchanges;
      plan_.places[n].waits = !is_needed[n];
      if (!is_needed[n]) continue;
      for (const Value v : graph_.node(id).inputs) is_needed[static_cast<std::size_t>(v.node)] = true;
      for (const std::int32_t c : graph_.node(id).control) is_needed[static_cast<std::size_t>(c)] = true;
    }
    for (std::int32_t id = 0; id < graph_.size(); ++id) {
      for (const std::int32_t c : graph_.node(id).control) place_after(id, place_behind(plan_, c, true));
      for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i)
        place_after(id, place_behind(plan_, graph_.node(id).inputs[i].node, !takes_chunks(id, i)));
    }
  }
  void place_after(std::int32_t id, const ChunkPlace& before) {
    ChunkPlace& own = plan_.places[static_cast<std::size_t>(id)];
    if (before.level > own.level) own.first = 0;
    if (before.level >= own.level) own.first = std::max(own.first, before.first);
    own.level = std::max(own.level, before.level);
  }
  // Input i is read as the chunks in which it was made.
  bool takes_chunks(std::int32_t id, std::size_t i) const {
    const Value v = graph_.node(id).inputs[i];
    const ChunkedNode &from = plan_.nodes[static_cast<std::size_t>(v.node)],
                      &to = plan_.nodes[static_cast<std::size_t>(id)];
    if (request_.scheme == FcScheme::kVertical && to.own_inputs) return false;  // rejoined before
    return to.region >= 0 && from.region == to.region && to.option.inputs[i].cuts() &&
           from.option.outputs[static_cast<std::size_t>(v.index)].cuts();
  }

  const Graph& graph_;
  const ChunkRequest& request_;
  const SampleDims samples_;
  const graph::ValueMap<std::vector<std::int32_t>> users_;
  std::vector<bool> is_member_;
  ChunkPlan plan_;
};

}  // namespace

FcScheme fc_scheme_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFcSchemes); ++i)
    if (kFcSchemes[i] == name) return static_cast<FcScheme>(i);
  TR_CHECK(false, "no scheme '{}'", name);
}

ChunkPlace place_behind(const ChunkPlan& plan, std::int32_t id, bool joined) {
  const ChunkedNode& node = plan.nodes[static_cast<std::size_t>(id)];
  ChunkPlace place = plan.places[static_cast<std::size_t>(id)];
  if (node.region < 0) return place;
  if (node.exchanges) place = {place.level + 1, place.waits, 0};
  if (joined)
    place.first = std::max(
        place.first, static_cast<int>(plan.regions[static_cast<std::size_t>(node.region)].num_chunks()) - 1);
  return place;
}

ChunkPlan choose_chunks(const Graph& first, const ShardAxis& axis, const ChunkRequest& request) {
  return ChunkChooser(first, axis, request).run();
}

std::size_t chunks_of(const ChunkPlan& plan, const ReshardRow& row) {
  for (const ChunkedMove& move : plan.moves)
    if (move.label == row.node && move.collective == row.collective) return move.chunks;
  return 1;
}

}  // namespace trireme::parallel
