#include "trireme/parallel/shard/reshard.h"

#include <limits>

namespace trireme::parallel {
namespace {

using collective::Kind;
using op::AxisCut;

bool is_low(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
bool is_plain(const AxisCut& cut) { return cut.blocks == 1 && cut.unit == 1; }

ReshardPath path_from_partial(const AxisCut& from, const AxisCut& to, DType dtype) {
  if (!(to == op::kReplicate || to.cuts()) || is_low(dtype)) return {.is_possible = false};
  if (from == op::kPartial)
    return {.steps = {to.cuts() ? ReshardStep::kReduceScatter : ReshardStep::kAllreduce}};
  if (to.cuts()) return {.steps = {ReshardStep::kAllreduceMax, ReshardStep::kTakePart}};
  return {.steps = {ReshardStep::kAllreduceMax}};
}

// The row of the table that prices a step; sums along an axis follow the fixed tree over its positions.
struct Priced {
  Kind kind;
  const char* algorithm;
};
Priced priced_by(ReshardStep step) {
  switch (step) {
    case ReshardStep::kAllgather:
      return {Kind::kAllgather, "bruck"};
    case ReshardStep::kAllToAll:
      return {Kind::kAllToAll, "direct"};
    case ReshardStep::kReduceScatter:
      return {Kind::kReduceScatter, "fixed-tree"};
    default:
      return {Kind::kAllreduce, "fixed-tree"};
  }
}

collective::ScheduleSpec spec_of(const TensorType& whole, int num_parts) {
  collective::ScheduleSpec spec;
  spec.world = num_parts;
  spec.elem_bytes = static_cast<std::int32_t>(dtype_size(whole.dtype));
  spec.count = whole.shape.num_elems();
  return spec;
}

StepCost cost_of(const Priced& row, collective::ScheduleSpec spec, const AxisCosts& costs) {
  spec.kind = row.kind;
  const auto algorithm = find_algorithm(row.kind, row.algorithm);
  TR_CHECK(algorithm.ok(), "{}", algorithm.status().message());
  const collective::Price price = (*algorithm)->price(spec);
  return {to_seconds(price_time(price, costs.comm)), price.bytes_per_rank};
}

}  // namespace

std::string_view step_name(ReshardStep step) {
  switch (step) {
    case ReshardStep::kTakePart:
      return "take_part";
    case ReshardStep::kAllgather:
      return "allgather";
    case ReshardStep::kAllToAll:
      return "all_to_all";
    case ReshardStep::kReduceScatter:
      return "reduce_scatter";
    case ReshardStep::kAllreduce:
    case ReshardStep::kAllreduceMax:
      return "allreduce";
  }
  return "";
}

ReshardPath path_of(const AxisCut& from, const AxisCut& to, DType dtype) {
  if (from == to) return {};
  if (from == op::kReplicate) {
    if (!to.cuts()) return {.is_possible = false};
    return {.steps = {ReshardStep::kTakePart}};
  }
  if (!from.cuts()) return path_from_partial(from, to, dtype);
  if (to == op::kReplicate) return {.steps = {ReshardStep::kAllgather}};
  if (!to.cuts()) return {.is_possible = false};
  if (from.dim != to.dim && is_plain(from) && is_plain(to)) return {.steps = {ReshardStep::kAllToAll}};
  return {.steps = {ReshardStep::kAllgather, ReshardStep::kTakePart}};
}

StepCost cost_of(ReshardStep step, const TensorType& whole, int num_parts, const AxisCosts& costs) {
  const auto bytes = static_cast<double>(whole.num_bytes());
  if (step == ReshardStep::kTakePart) {
    const cost::OpCost copy{.bytes = 2 * bytes / num_parts};
    return {to_seconds(compute_time(copy, costs.machine, costs.threads)), 0};
  }
  collective::ScheduleSpec spec = spec_of(whole, num_parts);
  if (step == ReshardStep::kAllToAll) spec.count = (spec.count + num_parts - 1) / num_parts;
  if (step == ReshardStep::kAllreduceMax) spec.reduction = collective::Reduction::kMax;
  return cost_of(priced_by(step), spec, costs);
}

StepCost broadcast_cost(const TensorType& chunk, int num_parts, const AxisCosts& costs) {
  return cost_of({Kind::kBroadcast, "binomial"}, spec_of(chunk, num_parts), costs);
}

double reshard_seconds(const AxisCut& from, const AxisCut& to, const TensorType& whole, int num_parts,
                       const AxisCosts& costs) {
  const ReshardPath path = path_of(from, to, whole.dtype);
  if (!path.is_possible) return std::numeric_limits<double>::infinity();
  double seconds = 0;
  for (const ReshardStep step : path.steps) seconds += cost_of(step, whole, num_parts, costs).seconds;
  return seconds;
}

}  // namespace trireme::parallel
