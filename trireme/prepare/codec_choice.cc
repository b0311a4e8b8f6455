#include "trireme/prepare/codec_choice.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "trireme/agree/agree.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/factors.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/stages.h"

namespace trireme::prepare {
namespace {

using Kind = job::Sending::Kind;

// What factors cost beyond what backward would have computed: products of all shards instead of the own ones,
// and their sum in a pass of its own.
struct ProductCost {
  cost::OpCost products, sum;
};
ProductCost product_cost(const plan::Plan& plan, const plan::Bucket& bucket) {
  if (!bucket.sends_factors() || servers_multiply(plan)) return {};
  std::int32_t own = 1;
  for (const auto& run : plan.owners) own = std::max(own, run.count);
  const auto elems = static_cast<double>(bucket.num_elems), shards = static_cast<double>(plan.logical_shards);
  const double bytes = sizeof(float) * elems;
  const cost::OpCost products{.flops = 2.0 * static_cast<double>(plan.shard_batch) * elems * (shards - own),
                              .bytes = bytes * (shards - own)};
  const cost::OpCost sum{.flops = elems * (shards - 1), .bytes = bytes * (shards + 1)};
  return {products, sum};
}

double product_seconds(const plan::Plan& plan, const plan::Bucket& bucket, const cost::Rates& rates) {
  if (!bucket.sends_factors() || servers_multiply(plan)) return 0;
  const ProductCost cost = product_cost(plan, bucket);
  return to_seconds(cost::compute_time(cost.products, rates.machine, plan.shard_threads) +
                    cost::compute_time(cost.sum, rates.machine, plan.shard_threads));
}

// Takes the product out of the strand that makes a gradient, where servers make it.
void leave_out_product(const plan::Plan& plan, const plan::Bucket& bucket, cost::OpCost& strand) {
  const double elems = static_cast<double>(bucket.num_elems) / static_cast<double>(bucket.parameters.size());
  strand.flops = std::max(0.0, strand.flops - 2.0 * static_cast<double>(plan.shard_batch) * elems);
  strand.bytes = std::max(0.0, strand.bytes - 4 * elems);
}

// What a bucket adds to an exchange that happens anyway: without what an empty one takes.
double added_seconds(const plan::Plan& plan, const plan::Bucket& bucket, const cost::Rates& rates) {
  plan::Bucket empty = bucket;
  empty.num_elems = 1;
  empty.factor_elems = std::min<std::int64_t>(1, bucket.factor_elems);
  empty.message_bytes = std::min(4.0, bucket.message_bytes);
  empty.code_bytes = 0;
  return std::max(0.0, plan::bucket_seconds(plan, bucket, rates) - plan::bucket_seconds(plan, empty, rates)) +
         product_seconds(plan, bucket, rates);
}

// Whether a bucket with one parameter really travels so, and is not only carried as it is.
bool carries(const job::Job& job, const job::Sending& sending, const plan::Bucket& bucket,
             const std::vector<model::Parameter>& parameters) {
  if (sending.is(Kind::kDense)) return true;
  if (sending.is(Kind::kFactors)) return bucket.sends_factors();
  if (sending.is(Kind::kLowRank)) return !matrices_of(bucket, parameters, job::low_rank_options(job)).empty();
  return !packing_of(bucket, parameters, job::coding_of(job, sending).least_elems).coded.empty();
}

Result<TensorPrice> price_of(const job::Job& job, const PrepareOptions& options, const plan::Plan& plan,
                             const job::Sending& sending, plan::Bucket& bucket) {
  const cost::Rates rates = rates_of(options);
  TensorPrice price{sending, "", 0, 0};
  TR_ASSIGN_OR_RETURN(const plan::Replicas replicas, replicas_of(job, plan, options));
  if (replicas.traffic.path != cost::Traffic::Path::kAllreduce) {
    const plan::BucketTrade trade = plan::trade_of(plan, bucket, replicas);
    price.bytes_sent = trade.bytes_out + trade.bytes_in;
    price.seconds = trade.seconds;
    return price;
  }
  if (bucket.message_bytes > 0) {
    choose_sum(job, plan, bucket, rates);
    price.sum = bucket.sum;
  }
  price.bytes_sent = plan::bucket_price(plan, bucket, rates).bytes_sent;
  price.seconds = added_seconds(plan, bucket, rates);
  return price;
}

// Each parameter by what is cheapest for it. Empty: that is the same for all that a codec takes.
TensorSendings cheapest_each(const std::vector<TensorPrices>& tensors) {
  TensorSendings each;
  std::optional<job::Sending> first;
  bool alike = true;
  for (const TensorPrices& t : tensors) {
    const auto best = std::min_element(t.prices.begin(), t.prices.end(),
                                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (t.prices.size() > 1) {
      if (!first) first = best->sending;
      alike = alike && best->sending == *first;
    }
    each[t.name] = best->sending;
  }
  return alike ? TensorSendings() : each;
}

// The plan and its costs with the buckets of one stage. Its rank computes all segments here: what hides
// exchanges is then what the stages before it still have to do.
std::pair<plan::Plan, plan::StepCosts> at_stage(const plan::Plan& plan, const plan::StepCosts& costs,
                                                int stage) {
  std::pair<plan::Plan, plan::StepCosts> own(plan, costs);
  own.first.buckets.clear();
  own.second.needed_before.clear();
  own.second.final_after.clear();
  own.second.updates.clear();
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const std::vector<int> stages = stages_with(plan, plan.buckets[b].segments);
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) continue;
    own.first.buckets.push_back(plan.buckets[b]);
    own.second.needed_before.push_back(costs.needed_before[b]);
    own.second.final_after.push_back(costs.final_after[b]);
    own.second.updates.push_back(costs.updates[b]);
  }
  return own;
}

class Chooser {
 public:
  Chooser(const job::Job& job, const PrepareOptions& options, const Prepared& prepared,
          const ParameterCosts& costs)
      : job_(job), options_(options), prepared_(prepared), costs_(costs), rates_(rates_of(options)) {}

  // A plan for one way, or for `each`; the best so far stays.
  Status consider(const job::Sending& sending, const TensorSendings& each) {
    constexpr double kPays = 0.95, kPaysExchange = 0.8;  // of a dense step, and of its exchanges
    TR_ASSIGN_OR_RETURN(plan::Plan plan, fresh_plan(job_, options_, prepared_, sending, each));
    plan::CodecChoice choice{job::word_of(sending), "", 0, 0};
    for (const plan::Bucket& b : plan.buckets)
      if (each.empty() && b.message_bytes > 0) choice.sum = b.sum;
    const plan::StepCosts costs = step_costs(plan, costs_);
    TR_ASSIGN_OR_RETURN(plan.overlap, possible_overlap(job_, options_.replicas, options_.device != nullptr));
    if (plan.segments > 1 && plan.overlap == plan::Overlap::kFull) plan.overlap = plan::Overlap::kBuckets;
    if (plan.overlap == plan::Overlap::kFull)
      plan.exchange_order = plan::exchange_order(plan::step_shape(plan, costs, rates_));
    TR_RETURN_IF_ERROR(price(plan, costs, choice));
    choices_.push_back(choice);
    const bool first = best_.buckets.empty();
    const bool pays = choice.step_seconds < kPays * choices_[0].step_seconds &&
                      choice.seconds < kPaysExchange * choices_[0].seconds;
    if (!first && (!pays || (!dense_ && choice.step_seconds >= least_))) return {};
    best_ = std::move(plan);
    best_.codec = choice.codec;
    dense_ = sending.is(Kind::kDense);
    least_ = choice.step_seconds;
    return {};
  }

  plan::Plan take() {
    best_.choices = std::move(choices_);
    return std::move(best_);
  }

 private:
  // What the exchanges and the step take. Stages share the computation, and the one with most to exchange is
  // waited for.
  Status price(const plan::Plan& plan, const plan::StepCosts& costs, plan::CodecChoice& choice) const {
    TR_ASSIGN_OR_RETURN(const plan::Replicas replicas, replicas_of(job_, plan, options_));
    const bool sums = replicas.traffic.path == cost::Traffic::Path::kAllreduce;
    const int stages = plan.cell_owners().stages();
    for (int stage = 0; stage < stages; ++stage) {
      const auto [own, own_costs] = stages > 1 ? at_stage(plan, costs, stage) : std::pair(plan, costs);
      double seconds = 0;
      for (const plan::Bucket& b : own.buckets)
        seconds += sums ? plan::bucket_seconds(plan, b, rates_) + product_seconds(plan, b, rates_)
                        : plan::trade_of(plan, b, replicas).seconds;
      TR_ASSIGN_OR_RETURN(plan::StepPrediction prediction, predict_step(job_, own, own_costs, options_));
      prediction.compute_seconds /= stages;
      choice.seconds = std::max(choice.seconds, seconds);
      choice.step_seconds = std::max(choice.step_seconds, prediction.step_seconds());
    }
    return {};
  }

  const job::Job& job_;
  const PrepareOptions& options_;
  const Prepared& prepared_;
  const ParameterCosts& costs_;
  const cost::Rates rates_;
  plan::Plan best_;
  std::vector<plan::CodecChoice> choices_;
  double least_ = 0;
  bool dense_ = true;  // the best one
};

}  // namespace

std::map<std::string, std::string> codecs_of(const plan::Plan& plan) {
  std::map<std::string, std::string> codecs;
  for (const plan::Bucket& b : plan.buckets)
    for (const std::string& p : b.parameters) codecs[p] = job::word_of(sending_of(b));
  return codecs;
}

Result<std::vector<TensorPrices>> price_tensors(const job::Job& asked, const PrepareOptions& options,
                                                const Prepared& prepared,
                                                const std::vector<job::Sending>& candidates) {
  std::vector<TensorPrices> all;
  std::map<std::string, std::size_t> places;
  for (const model::Parameter& p : prepared.parameters) {
    places[p.name] = all.size();
    all.push_back({p.name, p.type.shape, {}});
  }
  job::Job job = asked;
  job.parallel.bucket_bytes = 1;
  for (const job::Sending& sending : candidates) {
    if (sending.is(Kind::kFactors) && !job::can_send_factors(job).ok()) continue;
    TR_ASSIGN_OR_RETURN(plan::Plan plan, fresh_plan(job, options, prepared, sending));
    for (plan::Bucket& bucket : plan.buckets) {
      if (bucket.parameters.empty() || !carries(job, sending, bucket, prepared.parameters)) continue;
      TR_ASSIGN_OR_RETURN(TensorPrice price, price_of(job, options, plan, sending, bucket));
      all[places.at(bucket.parameters[0])].prices.push_back(std::move(price));
    }
  }
  return all;
}

ParameterCosts by_parameter(const plan::Plan& alone, const plan::StepCosts& costs) {
  ParameterCosts out;
  out.strands = costs.strands;
  out.loss_after = costs.loss_after;
  for (std::size_t i = 0; i < alone.buckets.size(); ++i)
    for (const std::string& p : alone.buckets[i].parameters)
      out.parameters[p] = {costs.needed_before[i], costs.final_after[i], costs.updates[i]};
  return out;
}

plan::StepCosts step_costs(const plan::Plan& plan, const ParameterCosts& costs) {
  plan::StepCosts out;
  out.strands = costs.strands;
  out.loss_after = costs.loss_after;
  const bool elsewhere = servers_multiply(plan);
  for (const plan::Bucket& bucket : plan.buckets) {
    std::int32_t needed = std::numeric_limits<std::int32_t>::max(), final = -1;
    const ProductCost product = product_cost(plan, bucket);
    cost::OpCost update = product.products + product.sum;
    for (const std::string& p : bucket.parameters) {
      const ParameterCosts::One& one = costs.parameters.at(p);
      needed = std::min(needed, one.needed_before);
      final = std::max(final, one.final_after);
      update += one.update;
      if (elsewhere && bucket.sends_factors() && one.final_after >= 0)
        leave_out_product(plan, bucket, out.strands[static_cast<std::size_t>(one.final_after)]);
    }
    out.needed_before.push_back(bucket.parameters.empty() ? 0 : needed);
    out.final_after.push_back(final);
    out.updates.push_back(update);
  }
  return out;
}

Result<plan::Plan> cheapest_plan(const job::Job& job, const PrepareOptions& options, const Prepared& prepared,
                                 const ParameterCosts& costs) {
  Chooser chooser(job, options, prepared, costs);
  TR_RETURN_IF_ERROR(chooser.consider({}, {}));
  if (options.replicas == 1) return chooser.take();  // nothing travels
  const std::vector<job::Sending> candidates = job::allowed_sendings(job);
  for (const job::Sending& sending : candidates)
    if (!sending.is(Kind::kDense)) TR_RETURN_IF_ERROR(chooser.consider(sending, {}));
  TR_ASSIGN_OR_RETURN(const std::vector<TensorPrices> tensors,
                      price_tensors(job, options, prepared, candidates));
  const TensorSendings each = cheapest_each(tensors);
  if (!each.empty()) TR_RETURN_IF_ERROR(chooser.consider({Kind::kMixed, nullptr}, each));
  return chooser.take();
}

}  // namespace trireme::prepare
