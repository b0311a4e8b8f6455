// What a plan believes a step takes.
#include <algorithm>
#include <cmath>

#include "trireme/plan/plan.h"

namespace trireme::plan {

namespace {

// Of a sum over all workers' gradients.
collective::ScheduleSpec sum_spec(const Plan& plan, std::int64_t num_elems, const std::string& collective) {
  collective::ScheduleSpec spec{.world = plan.workers(), .count = num_elems};
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, collective);
  if (!algorithm.ok() || !(*algorithm)->fixed_order) return spec;
  spec.leaf_runs = plan.owners;
  spec.num_leaves = plan.logical_shards;
  return spec;
}

double price_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective, bool direct,
                     const cost::CommModel& comm) {
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, collective);
  collective::ScheduleSpec spec = sum_spec(plan, num_elems, collective);
  spec.peer_memory = direct;
  if (!algorithm.ok() || !(*algorithm)->applicable(spec).ok()) return 0;
  return to_seconds(collective::price_time((*algorithm)->price(spec), comm));
}

double exchange_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective,
                        const cost::Rates& rates) {
  if (plan.workers() <= 1) return 0;
  if (!rates.direct) return price_seconds(plan, num_elems, collective, false, rates.comm);
  // Sums through mapped memory are made in one or two rounds of reads, whichever is cheaper (comm/direct.h).
  return std::min(price_seconds(plan, num_elems, "one-shot", true, rates.comm),
                  price_seconds(plan, num_elems, "two-shot", true, rates.comm));
}

// Everybody gets `elems` floats for each shard of the others.
collective::Price gather_price(const Plan& plan, std::int64_t elems, const cost::Rates& rates) {
  if (plan.workers() <= 1) return {};
  collective::ScheduleSpec spec{.kind = collective::Kind::kAllgather, .world = plan.workers()};
  for (const auto& run : plan.owners) spec.counts.push_back(run.count * elems);
  spec.count = plan.logical_shards * elems;
  spec.peer_memory = rates.direct;
  const auto algorithm = collective::select_algorithm(spec, rates.comm);
  return algorithm.ok() ? (*algorithm)->price(spec) : collective::Price{};
}

std::int64_t floats(double bytes) { return static_cast<std::int64_t>(bytes / sizeof(float)) + 1; }

const std::string& reducer_of(const Plan& plan, const Bucket& bucket) {
  return bucket.reducer.empty() ? plan.reducer : bucket.reducer;
}

// Floats of each turn of an encoded sum, for every shard. A split one: a message of every own shard in parts
// to all, then a sum in parts from all; sparse sums are longer.
std::vector<std::int64_t> turns_of(const Plan& plan, const Bucket& bucket) {
  const std::string& reducer = reducer_of(plan, bucket);
  const double message = bucket.message_bytes;
  if (reducer == "gather") return {floats(message)};
  const double back = reducer == "sparse" ? std::min(4.0 * static_cast<double>(bucket.num_elems),
                                                     message * plan.logical_shards)
                                          : message;
  return {floats(message / plan.workers()), floats(back / plan.logical_shards)};
}

// Messages of the rounds of recursive doubling that a worker sends one after the other, in bytes. In the last
// round of a world that is no power of two those of the smaller half serve several.
std::vector<double> doubling_rounds(const Plan& plan, const Bucket& bucket) {
  const double dense = 4.0 * static_cast<double>(bucket.num_elems);
  std::vector<double> rounds;
  const double own = static_cast<double>(plan.logical_shards) / plan.workers();
  for (int known = 1; known < plan.workers(); known *= 2) {
    const int others = std::min(known, plan.workers() - known);
    const double times = known * 2 < plan.workers() ? 1 : (known + others - 1) / others;
    rounds.push_back(times * std::min(dense, known * own * bucket.message_bytes));
  }
  return rounds;
}

cost::Rates rates_of(const cost::MachineModel& machine, const cost::LinkModel& link) {
  cost::Rates rates;
  rates.machine = machine;
  rates.comm = cost::CommModel(link, machine);
  return rates;
}

}  // namespace

double bucket_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  if (bucket.message_bytes > 0) return coded_seconds(plan, bucket, rates);
  if (bucket.codec == kFactors)
    return to_seconds(collective::price_time(gather_price(plan, bucket.factor_elems, rates), rates.comm));
  return exchange_seconds(plan, bucket.num_elems, bucket.collective, rates);
}

namespace {

// Products of factors are bound by the processor, sums and the update by memory: one comes after the other.
double update_seconds(const Plan& plan, const Bucket& bucket, const cost::OpCost& cost,
                      const cost::MachineModel& machine) {
  if (bucket.codec != kFactors) return to_seconds(cost::compute_time(cost, machine, plan.shard_threads));
  const double products = 4.0 * static_cast<double>(bucket.num_elems) * plan.logical_shards;
  const cost::OpCost multiply{.flops = cost.flops}, rest{.bytes = std::max(0.0, cost.bytes - products)};
  return to_seconds(cost::compute_time(multiply, machine, plan.shard_threads) +
                    cost::compute_time(rest, machine, plan.shard_threads));
}

// Adding what comes of a bucket that travels as it is: a part of its exchange that takes the worker's cores.
double addition_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  if (plan.workers() <= 1 || rates.direct || bucket.message_bytes > 0 || bucket.codec == kFactors) return 0;
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, bucket.collective);
  const collective::ScheduleSpec spec = sum_spec(plan, bucket.num_elems, bucket.collective);
  if (!algorithm.ok() || !(*algorithm)->applicable(spec).ok()) return 0;
  return to_seconds(collective::price_parts((*algorithm)->price(spec), rates.comm).additions);
}

}  // namespace

double code_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  if (bucket.message_bytes <= 0) return 0;
  std::int32_t own = 1;
  for (const auto& run : plan.owners) own = std::max(own, run.count);
  const std::string& reducer = reducer_of(plan, bucket);
  const auto rounds = static_cast<double>(doubling_rounds(plan, bucket).size());
  const double messages = reducer == "two-sums" ? 3.0 * own
                          : reducer == "gather" ? own + plan.logical_shards
                          : reducer == "doubling"
                              ? 2.0 * own + 2 * rounds
                              : 2.0 * own + static_cast<double>(own) / plan.logical_shards + 1;
  const double bytes = messages * bucket.code_bytes;
  const cost::OpCost cost{.flops = bytes / 4, .bytes = bytes};
  return to_seconds(cost::compute_time(cost, rates.machine, plan.shard_threads));
}

double coded_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  const double work = code_seconds(plan, bucket, rates);
  if (plan.workers() <= 1) return work;
  if (reducer_of(plan, bucket) == "two-sums")
    return work + 2 * exchange_seconds(plan, floats(bucket.message_bytes / 2), bucket.collective, rates);
  double seconds = work;
  if (reducer_of(plan, bucket) == "doubling") {
    const cost::LinkModel& link = rates.comm.link;
    for (const double bytes : doubling_rounds(plan, bucket))
      seconds += bytes / link.bytes_per_second + to_seconds(link.latency_ns + 2 * link.message_overhead_ns);
    return seconds;
  }
  for (const std::int64_t elems : turns_of(plan, bucket))
    seconds += to_seconds(collective::price_time(gather_price(plan, elems, rates), rates.comm));
  return seconds;
}

double bucket_bytes_sent(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  if (plan.workers() <= 1) return 0;
  const auto summed = [&](std::int64_t elems) {
    const collective::ScheduleSpec spec = sum_spec(plan, elems, bucket.collective);
    const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, bucket.collective);
    return algorithm.ok() && (*algorithm)->applicable(spec).ok() ? (*algorithm)->price(spec).bytes_per_rank
                                                                 : 0.0;
  };
  if (bucket.codec == kFactors) return gather_price(plan, bucket.factor_elems, rates).bytes_per_rank;
  if (bucket.message_bytes <= 0) return summed(bucket.num_elems);
  if (reducer_of(plan, bucket) == "two-sums") return 2 * summed(floats(bucket.message_bytes / 2));
  double bytes = 0;
  if (reducer_of(plan, bucket) == "doubling")
    for (const double round : doubling_rounds(plan, bucket)) bytes += round;
  else
    for (const std::int64_t elems : turns_of(plan, bucket))
      bytes += gather_price(plan, elems, rates).bytes_per_rank;
  return bytes;
}

double exchange_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective,
                        const cost::MachineModel& machine, const cost::LinkModel& link) {
  return exchange_seconds(plan, num_elems, collective, rates_of(machine, link));
}

StepShape step_shape(const Plan& plan, const StepCosts& costs, const cost::MachineModel& machine,
                     const cost::LinkModel& link) {
  return step_shape(plan, costs, rates_of(machine, link));
}

StepShape step_shape(const Plan& plan, const StepCosts& costs, const cost::Rates& rates) {
  const cost::MachineModel& machine = rates.machine;
  std::int32_t most = 1;
  for (const auto& run : plan.owners) most = std::max(most, run.count);
  const int at_once = std::max(1, machine.cores / std::max(1, plan.shard_threads));
  const std::int32_t waves = (most + at_once - 1) / at_once;
  std::vector<double> before{0};  // seconds before each strand, and in all
  for (const cost::OpCost& strand : costs.strands)
    before.push_back(before.back() + to_seconds(cost::compute_time(strand, machine, plan.shard_threads)));
  const double shard = before.back();
  StepShape shape;
  shape.compute = waves * shard;
  const bool busy = std::min(most, at_once) * std::max(1, plan.shard_threads) >= machine.cores;
  double cores = 0, links = 0;
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const auto needed = static_cast<std::size_t>(std::max(0, costs.needed_before[i]));
    const auto final = static_cast<std::size_t>(costs.final_after[i] + 1);
    shape.needed_at.push_back(before[needed]);
    shape.final_at.push_back((waves - 1) * shard + before[final]);
    // Where weights are shared, sums are not spread: half of the way; and everybody updates a part.
    const double share = plan.shared_weights ? 0.5 : 1;
    shape.exchange.push_back(share * bucket_seconds(plan, plan.buckets[i], rates));
    const double update = update_seconds(plan, plan.buckets[i], costs.updates[i], machine);
    shape.update.push_back(plan.shared_weights ? update / plan.workers() : update);
    if (!busy || plan.workers() < 2) continue;
    const double own =
        code_seconds(plan, plan.buckets[i], rates) + addition_seconds(plan, plan.buckets[i], rates);
    cores += shape.update.back() + own;
    links += std::max(0.0, shape.exchange.back() - own);
  }
  // Cores and links wait for each other where both are busy; what they add up to is in between, found on the
  // virtual cluster.
  constexpr double kTogether = 1.6;
  if (cores > 0)
    shape.coding =
        std::pow(std::pow(shape.compute + cores, kTogether) + std::pow(links, kTogether), 1 / kTogether) -
        shape.compute;
  return shape;
}

Prediction predict(const Plan& plan, const StepShape& shape) {
  Prediction p;
  p.compute_seconds = shape.compute;
  for (const double seconds : shape.update) p.update_seconds += seconds;
  const double step = step_seconds(shape, plan.exchange_order, plan.overlap);
  // What is hidden behind the computation counts as nothing.
  p.update_seconds = std::min(p.update_seconds, std::max(0.0, step - shape.compute));
  if (plan.workers() > 1) p.exchange_seconds = std::max(0.0, step - shape.compute - p.update_seconds);
  return p;
}

double one_worker_seconds(const Plan& plan, const StepCosts& costs, const cost::Rates& rates) {
  Plan alone = plan;
  alone.owners = parallel::even_runs(plan.logical_shards, 1);
  alone.shared_weights = false;
  alone.overlap = Overlap::kBuckets;
  alone.exchange_order.clear();
  for (Bucket& b : alone.buckets) b.codec = "none", b.message_bytes = b.code_bytes = 0;
  return predict(alone, step_shape(alone, costs, rates)).step_seconds();
}

}  // namespace trireme::plan
