// What a plan believes a step takes.
#include <algorithm>
#include <cmath>

#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

namespace {

cost::Rates rates_of(const cost::MachineModel& machine, const cost::LinkModel& link) {
  cost::Rates rates;
  rates.machine = machine;
  rates.comm = cost::CommModel(link, machine);
  return rates;
}

// Products of factors are bound by the processor, sums and the update by memory: one comes after the other.
double update_seconds(const Plan& plan, const StepCosts& costs, std::size_t b, const cost::Rates& rates) {
  const Bucket& bucket = plan.buckets[b];
  const cost::OpCost& cost = costs.updates[b];
  const cost::MachineModel& machine = rates.machine;
  const bool known = b < costs.update_work.size();
  if (!bucket.sends_factors())
    return rates.seconds(cost, known ? costs.update_work[b] : cost::Work(), plan.shard_threads).seconds;
  const double products = 4.0 * static_cast<double>(bucket.num_elems) * plan.logical_shards;
  const cost::OpCost multiply{.flops = cost.flops}, rest{.bytes = std::max(0.0, cost.bytes - products)};
  return to_seconds(cost::compute_time(multiply, machine, plan.shard_threads) +
                    cost::compute_time(rest, machine, plan.shard_threads));
}

comm::SumPrice sum_price(const Bucket& bucket, const comm::SumShape& shape, const cost::Rates& rates) {
  const auto row = comm::find_sum(bucket.sum);
  return row.ok() ? (*row)->price(shape, rates) : comm::SumPrice();
}

}  // namespace

int shards_at_once(const Plan& plan, const cost::Rates& rates) {
  if (plan.segments > 1) return 1;  // by the timetable, one after the other
  std::int32_t most = 1;
  for (const auto& run : plan.owners) most = std::max(most, run.count);
  return std::min(most, std::max(1, rates.machine.cores / std::max(1, plan.shard_threads)));
}

cost::WorkSeconds strand_seconds(const Plan& plan, const StepCosts& costs, std::size_t strand,
                                 const cost::Rates& rates) {
  const bool known = strand < costs.strand_work.size();
  return rates.seconds(costs.strands[strand], known ? costs.strand_work[strand] : cost::Work(),
                       plan.shard_threads, 1, shards_at_once(plan, rates));
}

comm::SumShape sum_shape(const Plan& plan, const Bucket& bucket) {
  comm::SumShape shape;
  shape.owners = plan.owners;
  shape.num_shards = plan.logical_shards;
  shape.num_elems = bucket.num_elems;
  shape.collective = bucket.collective;
  shape.threads = plan.shard_threads;
  shape.message_bytes = bucket.message_bytes;
  shape.code_bytes = bucket.code_bytes;
  shape.factor_elems = bucket.factor_elems;
  return shape;
}

comm::SumPrice gather_price(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  return comm::parts_price(sum_shape(plan, bucket), parameter_elems(bucket), rates);
}

comm::SumPrice bucket_price(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  return sum_price(bucket, sum_shape(plan, bucket), rates);
}

double bucket_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates) {
  return bucket_price(plan, bucket, rates).seconds();
}

double exchange_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective,
                        const cost::MachineModel& machine, const cost::LinkModel& link) {
  Bucket dense;
  dense.num_elems = num_elems;
  dense.collective = collective;
  return bucket_seconds(plan, dense, rates_of(machine, link));
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
  double measured = 0;
  for (std::size_t s = 0; s < costs.strands.size(); ++s) {
    const cost::WorkSeconds strand = strand_seconds(plan, costs, s, rates);
    before.push_back(before.back() + strand.seconds);
    measured += strand.measured;
  }
  const double shard = before.back();
  StepShape shape;
  shape.compute = waves * shard;
  shape.measured = waves * measured;
  shape.axis = waves * plan.tile_seconds;
  shape.loss_at = (waves - 1) * shard +
                  (costs.loss_after < 0 ? shard : before[static_cast<std::size_t>(costs.loss_after) + 1]);
  if (plan.workers() > 1) {
    Bucket vote;
    vote.num_elems = kVoteElems;
    shape.vote = bucket_seconds(plan, vote, rates);
  }
  const bool busy = std::min(most, at_once) * std::max(1, plan.shard_threads) >= machine.cores;
  double cores = 0, links = 0;
  // Replicas that divide state need a part of every sum, where nothing is known about all gradients first,
  // and gather parameters after the update, or when they are read.
  const bool divides = plan.zero_level() > 0;
  if (plan.zero_level() == 3)
    for (const std::size_t b : costs.gathers)
      shape.axis += gather_price(plan, plan.buckets[b], rates).seconds() / 2;  // about half is hidden
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const auto needed = static_cast<std::size_t>(std::max(0, costs.needed_before[i]));
    const auto final = static_cast<std::size_t>(costs.final_after[i] + 1);
    shape.needed_at.push_back(before[needed]);
    shape.final_at.push_back((waves - 1) * shard + before[final]);
    // Where weights are shared, sums are not spread: half of the way; and everybody updates a part.
    const double share = plan.shared_weights ? 0.5 : 1;
    comm::SumShape sum = sum_shape(plan, plan.buckets[i]);
    if (divides && !costs.updates_wait) sum.scattered = parameter_elems(plan.buckets[i]);
    const comm::SumPrice price = sum_price(plan.buckets[i], sum, rates);
    shape.exchange.push_back(share * price.seconds());
    const double update = update_seconds(plan, costs, i, rates);
    shape.update.push_back(plan.shared_weights || divides ? update / plan.workers() : update);
    if (divides && plan.zero_level() < 3)
      shape.update.back() += gather_price(plan, plan.buckets[i], rates).seconds();
    // A prediction by rates of one worker alone takes the walk's word, where updates hide behind backward.
    if (!busy || (plan.workers() < 2 && rates.op_times == nullptr)) continue;
    const double own = price.code_seconds + price.add_seconds;
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

StepPrediction predict(const Plan& plan, const StepShape& shape) {
  StepPrediction p;
  p.compute_seconds = shape.compute;
  p.measured_fraction = shape.compute > 0 ? shape.measured / shape.compute : 0;
  p.axis_seconds = shape.axis;
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
  alone.zero = 0;
  alone.overlap = Overlap::kBuckets;
  alone.exchange_order.clear();
  for (Bucket& b : alone.buckets) {
    b.sum = Bucket::kDense;
    b.codec.clear();
    b.message_bytes = b.code_bytes = 0;
  }
  alone.tile_seconds = 0;
  cost::Rates own = rates;
  own.ranks_at_once = 1;
  // Costs are those of one tile; a worker alone has them all.
  return plan.tiles * predict(alone, step_shape(alone, costs, own)).step_seconds();
}

}  // namespace trireme::plan
