#include "trireme/plan/step_model.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/check.h"
#include "trireme/plan/step_program.h"

namespace trireme::plan {
namespace {

constexpr std::string_view kNames[] = {"none", "buckets", "full"};
constexpr std::string_view kTimetables[] = {"lock-step", "leased"};
constexpr std::int64_t kMinBucketBytes = 64 << 10, kMaxBucketBytes = 32 << 20;

// Lanes of a worker that is priced as one sequence of parts: its cores, a link that carries one bucket at a
// time, and updates, which share the cores, so that they too come one after the other.
enum Lane : int { kCores, kLink, kUpdates };

ActionPrice price_of(const Action& action, const StepShape& shape, const StepParts& parts) {
  const auto bucket = static_cast<std::size_t>(std::max(0, action.bucket));
  switch (action.kind) {
    case ActionKind::kCompute: {
      const auto part = static_cast<std::size_t>(action.part);
      return {parts.cuts[part + 1] - parts.cuts[part], kCores};
    }
    case ActionKind::kSum:
      return {shape.exchange[bucket], kLink};
    case ActionKind::kUpdate:
      return {shape.update[bucket], kUpdates};
    case ActionKind::kVote:
      return {shape.vote};
    default:
      return {};
  }
}

}  // namespace

std::string_view overlap_name(Overlap overlap) { return kNames[static_cast<std::size_t>(overlap)]; }

Result<Overlap> find_overlap(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<Overlap>(i);
  return error(Code::kInvalid, "[plan] no overlap is called '{}'; expected none, buckets or full", name);
}

std::string_view timetable_name(Timetable timetable) {
  return kTimetables[static_cast<std::size_t>(timetable)];
}

Result<Timetable> find_timetable(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kTimetables); ++i)
    if (kTimetables[i] == name) return static_cast<Timetable>(i);
  return error(Code::kInvalid, "[plan] no timetable is called '{}'; expected lock-step or leased", name);
}

std::vector<std::int32_t> exchange_order(const StepShape& shape) {
  const std::size_t n = shape.final_at.size();
  std::vector<std::int32_t> order;
  std::vector<bool> taken(n, false);
  double now = 0;
  while (order.size() < n) {
    std::size_t best = n, next = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (taken[i]) continue;
      if (next == n || shape.final_at[i] < shape.final_at[next]) next = i;
      if (shape.final_at[i] <= now && (best == n || shape.needed_at[i] < shape.needed_at[best])) best = i;
    }
    if (best == n) {
      now = shape.final_at[next];
      continue;
    }
    taken[best] = true;
    now += shape.exchange[best];
    order.push_back(static_cast<std::int32_t>(best));
  }
  return order;
}

double step_seconds(const StepShape& shape, std::span<const std::int32_t> order, Overlap overlap) {
  constexpr int kSteps = 8;  // the last ones are steady
  const double least = shape.compute + shape.coding;
  if (shape.final_at.empty()) return least;
  const StepParts parts = cut_step(shape.needed_at, shape.final_at, shape.loss_at, shape.compute);
  StepSpec spec;
  spec.num_parts = parts.size();
  spec.needed_by = parts.needed_by;
  spec.final_after = parts.final_after;
  spec.loss_after = parts.loss_after;
  spec.overlap = overlap;
  if (overlap == Overlap::kFull) spec.order.assign(order.begin(), order.end());
  const Result<StepProgram> program = build_step(spec);
  TR_CHECK(program.ok(), "{}", program.status().to_string());
  std::vector<ActionPrice> prices;
  for (const Action& action : program->actions) prices.push_back(price_of(action, shape, parts));
  return std::max(least, walk_step(*program, prices, kSteps).step_seconds);
}

std::int64_t best_bucket_bytes(std::int64_t total_bytes, double startup_seconds, double seconds_per_byte) {
  if (seconds_per_byte <= 0) return kMaxBucketBytes;
  const double best = std::sqrt(startup_seconds * static_cast<double>(total_bytes) / seconds_per_byte);
  return std::clamp(static_cast<std::int64_t>(best), kMinBucketBytes, kMaxBucketBytes);
}

}  // namespace trireme::plan
