// StepModel: what happens when in synchronous steps of one worker, by the cost model. Pure.
//
// Backward makes the gradients of the last layers final first, and the next forward pass needs the weights of
// the first layers first. So exchanges are started by next use, not by age, and the next step starts while
// later buckets still travel (Jayarajan et al., "Priority-based parameter propagation for distributed DNN
// training", MLSys 2019; Peng et al., "A generic communication scheduler for distributed DNN training
// acceleration", SOSP 2019).
//
// All workers start their exchanges in one order, fixed beforehand: with a bound on those under way, two
// workers that chose for themselves could each wait for what the other one has not begun.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/cost/cost.h"

namespace trireme::plan {

enum class Overlap : std::uint8_t {
  kNone,     // exchange when backward has ended; the next step when everything has arrived
  kBuckets,  // a bucket leaves as soon as it is final
  kFull,     // and the next step starts with the layers whose buckets have arrived
};
std::string_view overlap_name(Overlap overlap);
Result<Overlap> find_overlap(std::string_view name);

// Who waits for whom in a step.
enum class Timetable : std::uint8_t {
  kLockStep,  // gradients are summed over all workers, in every step
  kLeased,    // a worker takes one logical shard after the other at its own pace, by the rule
};
std::string_view timetable_name(Timetable timetable);
Result<Timetable> find_timetable(std::string_view name);

// A worker's step in seconds from its start, as if it never waited; all vectors are per bucket, in plan
// order.
struct StepShape {
  std::vector<double> needed_at;  // when the forward pass first reads the bucket's parameters
  std::vector<double> final_at;   // when backward is done with its gradients
  std::vector<double> exchange;   // how long it occupies the links
  std::vector<double> update;
  double compute = 0;   // forward and backward
  double measured = 0;  // of it, of nodes that were measured
  double axis = 0;      // exchanges within the replica, which the graphs wait for
  double loss_at = 0;   // when the loss is known
  double vote = 0;      // how long ranks vote on it
  // Beyond it, where cores are busy: updates, encoding, decoding, additions, and links that they wait for.
  double coding = 0;
};

// Exchanges that run at the same time, where their order is fixed. One would leave the link idle while its
// last message is on its way.
inline constexpr std::size_t kExchangesAtOnce = 4;

// Buckets in the order in which exchanges start: whenever the link is free, of those that are final the one
// that is needed first.
std::vector<std::int32_t> exchange_order(const StepShape& shape);

// A step in steady state, on a link that carries one bucket at a time. `order` matters for kFull only.
double step_seconds(const StepShape& shape, std::span<const std::int32_t> order, Overlap overlap);

// The size of buckets that costs least when `total_bytes` are exchanged and only the last bucket is not
// hidden: with a start-up time a and b seconds per byte, n buckets cost n a + b total / n, so their best size
// is sqrt(a total / b).
std::int64_t best_bucket_bytes(std::int64_t total_bytes, double startup_seconds, double seconds_per_byte);

}  // namespace trireme::plan
