// What a plan believes a step takes.
#include <algorithm>

#include "trireme/plan/plan.h"

namespace trireme::plan {

namespace {

double price_seconds(const Plan& plan, collective::ScheduleSpec spec, const std::string& collective,
                     const cost::CommModel& comm) {
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, collective);
  if (!algorithm.ok()) return 0;
  if ((*algorithm)->fixed_order) {
    spec.leaf_runs = plan.owners;
    spec.num_leaves = plan.logical_shards;
  }
  if (!(*algorithm)->applicable(spec).ok()) return 0;
  return to_seconds(collective::price_time((*algorithm)->price(spec), comm));
}

double exchange_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective,
                        const cost::Rates& rates) {
  if (plan.workers() <= 1) return 0;
  collective::ScheduleSpec spec{.world = plan.workers(), .count = num_elems};
  if (!rates.direct) return price_seconds(plan, spec, collective, rates.comm);
  // Sums through mapped memory are made in one or two rounds of reads, whichever is cheaper (comm/direct.h).
  spec.peer_memory = true;
  return std::min(price_seconds(plan, spec, "one-shot", rates.comm),
                  price_seconds(plan, spec, "two-shot", rates.comm));
}

// Everybody gets the factors of all shards.
double factor_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  if (plan.workers() <= 1) return 0;
  collective::ScheduleSpec spec{.kind = collective::Kind::kAllgather, .world = plan.workers()};
  for (const auto& run : plan.owners) spec.counts.push_back(run.count * bucket.factor_elems);
  spec.count = plan.logical_shards * bucket.factor_elems;
  spec.peer_memory = rates.direct;
  const auto algorithm = collective::select_algorithm(spec, rates.comm);
  return algorithm.ok() ? to_seconds(collective::price_time((*algorithm)->price(spec), rates.comm)) : 0;
}

// Everybody gets `bytes` for each shard of the others.
double gather_seconds(const Plan& plan, double bytes, const cost::Rates& rates) {
  collective::ScheduleSpec spec{.kind = collective::Kind::kAllgather, .world = plan.workers()};
  const auto elems = static_cast<std::int64_t>(bytes / sizeof(float)) + 1;
  for (const auto& run : plan.owners) spec.counts.push_back(run.count * elems);
  spec.count = plan.logical_shards * elems;
  spec.peer_memory = rates.direct;
  const auto algorithm = collective::select_algorithm(spec, rates.comm);
  return algorithm.ok() ? to_seconds(collective::price_time((*algorithm)->price(spec), rates.comm)) : 0;
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
  if (bucket.codec == kFactors) return factor_seconds(plan, bucket, rates);
  return exchange_seconds(plan, bucket.num_elems, bucket.collective, rates);
}

double coded_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  std::int32_t own = 1;
  for (const auto& run : plan.owners) own = std::max(own, run.count);
  const auto work = [&](double messages) {
    const double bytes = messages * bucket.code_bytes;
    const cost::OpCost cost{.flops = bytes / 4, .bytes = bytes};
    return to_seconds(cost::compute_time(cost, rates.machine, plan.shard_threads));
  };
  const int workers = plan.workers();
  const double message = bucket.message_bytes;
  if (plan.reducer == "two-sums") {
    const auto half = static_cast<std::int64_t>(message / 2 / sizeof(float)) + 1;
    return work(3.0 * own) + 2 * exchange_seconds(plan, half, bucket.collective, rates);
  }
  if (plan.reducer == "gather")
    return work(own + plan.logical_shards) + (workers > 1 ? gather_seconds(plan, message, rates) : 0);
  // A message of every own shard in parts to all, then a sum in parts from all; sparse sums are longer.
  const double back = plan.reducer == "sparse" ? std::min(4.0 * static_cast<double>(bucket.num_elems),
                                                          message * plan.logical_shards)
                                               : message;
  return work(2.0 * own + 2) + (workers > 1 ? gather_seconds(plan, message / workers, rates) +
                                                  gather_seconds(plan, back / plan.logical_shards, rates)
                                            : 0);
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
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const auto needed = static_cast<std::size_t>(std::max(0, costs.needed_before[i]));
    const auto final = static_cast<std::size_t>(costs.final_after[i] + 1);
    shape.needed_at.push_back(before[needed]);
    shape.final_at.push_back((waves - 1) * shard + before[final]);
    // Where weights are shared, sums are not spread: half of the way; and everybody updates a part.
    const double share = plan.shared_weights ? 0.5 : 1;
    shape.exchange.push_back(share * bucket_seconds(plan, plan.buckets[i], rates));
    const double update = to_seconds(cost::compute_time(costs.updates[i], machine, plan.shard_threads));
    shape.update.push_back(plan.shared_weights ? update / plan.workers() : update);
  }
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

}  // namespace trireme::plan
