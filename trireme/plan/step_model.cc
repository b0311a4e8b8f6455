#include "trireme/plan/step_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trireme::plan {
namespace {

constexpr std::string_view kNames[] = {"none", "buckets", "full"};
constexpr std::string_view kTimetables[] = {"lock-step", "leased"};
constexpr std::int64_t kMinBucketBytes = 64 << 10, kMaxBucketBytes = 32 << 20;

// Starts exchanges one after the other in `order`; gives when each bucket is there and applied. Updates share
// the worker's cores, so they too come one after the other.
std::vector<double> arrivals(const StepShape& shape, std::span<const std::int32_t> order,
                             const std::vector<double>& final_at, double& link_free) {
  std::vector<double> there(final_at.size());
  double applied = 0;
  for (const std::int32_t b : order) {
    const auto i = static_cast<std::size_t>(b);
    link_free = std::max(link_free, final_at[i]) + shape.exchange[i];
    applied = std::max(applied, link_free) + shape.update[i];
    there[i] = applied;
  }
  return there;
}

// How long the forward pass that starts at `start` stands still for buckets that come at `there`.
double held(const StepShape& shape, double start, const std::vector<double>& there) {
  std::vector<std::size_t> by_need(there.size());
  std::iota(by_need.begin(), by_need.end(), std::size_t{0});
  std::sort(by_need.begin(), by_need.end(),
            [&](std::size_t a, std::size_t b) { return shape.needed_at[a] < shape.needed_at[b]; });
  double late = 0;
  for (const std::size_t i : by_need) late = std::max(late, there[i] - (start + shape.needed_at[i]));
  return late;
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
  const std::size_t n = shape.final_at.size();
  std::vector<std::int32_t> by_age(n);
  std::iota(by_age.begin(), by_age.end(), 0);
  std::vector<double> there(n, 0);
  double start = 0, link_free = 0, half_way = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) half_way = start;
    const double late = overlap == Overlap::kFull ? held(shape, start, there) : 0;
    const double end = start + late + shape.compute;
    std::vector<double> final_at(n, end);
    for (std::size_t i = 0; overlap != Overlap::kNone && i < n; ++i)
      final_at[i] = start + late + shape.final_at[i];
    there = arrivals(shape, overlap == Overlap::kFull ? order : by_age, final_at, link_free);
    start = end;
    if (overlap != Overlap::kFull)
      for (const double t : there) start = std::max(start, t);
  }
  return std::max(shape.compute + shape.coding, (start - half_way) / (kSteps - kSteps / 2));
}

std::int64_t best_bucket_bytes(std::int64_t total_bytes, double startup_seconds, double seconds_per_byte) {
  if (seconds_per_byte <= 0) return kMaxBucketBytes;
  const double best = std::sqrt(startup_seconds * static_cast<double>(total_bytes) / seconds_per_byte);
  return std::clamp(static_cast<std::int64_t>(best), kMinBucketBytes, kMaxBucketBytes);
}

}  // namespace trireme::plan
