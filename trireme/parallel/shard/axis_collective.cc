#include "trireme/parallel/shard/axis_collective.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/check.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using collective::Edge;
using collective::Kind;
using collective::ScheduleSpec;
using Ints = std::vector<std::int64_t>;

std::int64_t elems_of(const TensorType& type) { return type.shape.num_elems(); }

// Elements behind one index of a dimension; a piece without indices says nothing of it.
std::int64_t elems_of_index(const TensorType& type, std::int64_t dim) {
  std::int64_t elems = 1;
  for (int d = 0; d < type.shape.rank(); ++d)
    if (d != dim) elems *= type.shape[d];
  return elems;
}

// Blocks of pieces whose sizes along a dimension differ; none where all are equal.
Ints blocks_of(const graph::Node& node, const TensorType& whole) {
  Ints counts = node.attrs.get_ints("sizes");
  const std::int64_t rest = elems_of_index(whole, node.attrs.get_int("dim"));
  for (std::int64_t& count : counts) count *= rest;
  return counts;
}

// Row r: what r sends to each. None where all of it is equal.
Ints turned_counts(const graph::Node& node, const TensorType& in, const TensorType& out, int num_parts) {
  const op::Attrs& attrs = node.attrs;
  const std::int64_t from_dim = attrs.get_int("from"), to_dim = attrs.get_int("to");
  Ints from = attrs.get_ints("sizes_from"), to = attrs.get_ints("sizes_to");
  if (from.empty() && to.empty()) return {};
  const auto parts = static_cast<std::size_t>(num_parts);
  if (from.empty()) from.assign(parts, in.shape[static_cast<int>(from_dim)]);
  if (to.empty()) to.assign(parts, out.shape[static_cast<int>(to_dim)]);
  std::int64_t rest = 1;
  for (int d = 0; d < in.shape.rank(); ++d)
    if (d != from_dim && d != to_dim) rest *= in.shape[d];
  Ints counts;
  for (const std::int64_t source : from)
    for (const std::int64_t target : to) counts.push_back(rest * source * target);
  return counts;
}

// Who sends how much of its piece to whose window.
std::vector<Edge> halo_edges(const graph::Node& node, const TensorType& in, int num_parts) {
  const Ints &begins = node.attrs.get_ints("begins"), &ends = node.attrs.get_ints("ends");
  const std::int64_t dim = node.attrs.get_int("dim"), rest = elems_of_index(in, dim);
  Ints sizes = node.attrs.get_ints("sizes");
  if (sizes.empty()) sizes.assign(static_cast<std::size_t>(num_parts), in.shape[static_cast<int>(dim)]);
  Ints starts{0};
  for (const std::int64_t size : sizes) starts.push_back(starts.back() + size);
  std::vector<Edge> edges;
  for (int to = 0; to < num_parts; ++to) {
    const std::int64_t begin = begins[static_cast<std::size_t>(to)], end = ends[static_cast<std::size_t>(to)];
    // The first piece that ends behind the window's begin.
    auto from = std::upper_bound(starts.begin() + 1, starts.end(), begin) - starts.begin() - 1;
    for (; from < num_parts && starts[static_cast<std::size_t>(from)] < end; ++from) {
      const auto at = static_cast<std::size_t>(from);
      const std::int64_t count = std::min(end, starts[at + 1]) - std::max(begin, starts[at]);
      if (from != to && count > 0) edges.push_back({static_cast<std::int32_t>(from), to, count * rest});
    }
  }
  return edges;
}

AxisCollective with(ScheduleSpec spec, Kind kind, const char* algorithm) {
  spec.kind = kind;
  const auto found = collective::find_algorithm(kind, algorithm);
  TR_CHECK(found.ok(), "{}", found.status().message());
  return {*found, std::move(spec)};
}

}  // namespace

bool is_collective_along(const graph::Node& node, std::string_view axis) {
  if (node.def->family != "comm" || node.def == &op::kSend || node.def == &op::kRecv) return false;
  return node.attrs.get_text("axis") == axis;
}

AxisCollective collective_of(const graph::Graph& part, const graph::Node& node, int num_parts) {
  const TensorType &in = part.type(node.inputs[0]), &out = node.outputs[0];
  ScheduleSpec spec;
  spec.world = num_parts;
  spec.elem_bytes = static_cast<std::int32_t>(dtype_size(in.dtype));
  spec.count = elems_of(in);
  if (node.def == &op::kHaloExchange) {
    spec.edges = halo_edges(node, in, num_parts);
    spec.count = 0;
    for (const Edge& e : spec.edges) spec.count += e.count;
    return with(std::move(spec), Kind::kNeighbours, "direct");
  }
  if (node.def == &op::kAllToAll) {
    spec.counts = turned_counts(node, in, out, num_parts);
    if (!spec.counts.empty()) spec.count = std::accumulate(spec.counts.begin(), spec.counts.end(), 0L);
    return with(std::move(spec), Kind::kAllToAll, "direct");
  }
  if (node.def == &op::kBroadcast) {
    spec.root = static_cast<int>(node.attrs.get_int("root"));
    return with(std::move(spec), Kind::kBroadcast, "binomial");
  }
  if (node.def == &op::kAllgather) {
    spec.count = elems_of(out);
    spec.counts = blocks_of(node, out);
    return with(std::move(spec), Kind::kAllgather, "bruck");
  }
  if (node.def == &op::kReduceScatter) {
    spec.counts = blocks_of(node, in);
    return with(std::move(spec), Kind::kReduceScatter, "fixed-tree");
  }
  TR_CHECK(node.def == &op::kAllreduce, "'{}' ({}) is no collective along an axis", node.name,
           node.def->name);
  if (node.attrs.get_text("reduction") == "max") spec.reduction = collective::Reduction::kMax;
  return with(std::move(spec), Kind::kAllreduce, "fixed-tree");
}

StepCost cost_of(const AxisCollective& c, const AxisCosts& costs) {
  if (c.spec.kind == Kind::kNeighbours && c.spec.edges.empty()) return {};
  const collective::Price price = c.algorithm->price(c.spec);
  return {to_seconds(price_time(price, costs.comm)), price.bytes_per_rank};
}

double bytes_sent(const AxisCollective& c, int position) {
  if (c.spec.kind == Kind::kNeighbours) {
    std::int64_t sent = 0;
    for (const Edge& e : c.spec.edges) sent += e.from == position ? e.count : 0;
    return static_cast<double>(sent) * c.spec.elem_bytes;
  }
  const Result<collective::RankProgram> program = build_program(*c.algorithm, c.spec, position);
  TR_CHECK(program.ok(), "{}", program.status().message());
  return static_cast<double>(program->bytes_sent(c.spec.elem_bytes));
}

}  // namespace trireme::parallel
