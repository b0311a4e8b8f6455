#include "trireme/train/choose_again.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/agree.h"
#include "trireme/engine/share_text.h"
#include "trireme/job/job_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/batch.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/prepare.h"
#include "trireme/train/start.h"

namespace trireme::train {
namespace {

constexpr const char* kDenseWord = "none";  // of plans whose gradients travel as they are

using runtime::Task;

constexpr double kChanged = 2;    // rates that differ by more are others
constexpr double kAlike = 1.25;   // steps that differ by less are as predicted
constexpr double kSlower = 1.03;  // than the dense steps of the same run: beyond noise
constexpr double kWorthATry = 8;  // predicted dense steps, of measured ones
constexpr int kMostChanges = 4;   // in a run
constexpr double kMostScale = 1 << 20;

cost::Rates scaled(const cost::Rates& rates, double speed, double link) {
  cost::Rates out = rates;
  out.machine.speed *= speed;
  out.comm.machine.speed *= speed;
  out.comm.link.bytes_per_second *= link;
  out.comm.local.bytes_per_second *= link;
  out.comm.peer_bytes_per_second *= link;
  return out;
}

double predicted_step(const plan::Plan& plan, const plan::StepCosts& costs, const cost::Rates& rates) {
  return plan::predict(plan, plan::step_shape(plan, costs, rates)).step_seconds();
}

double ratio(double a, double b) { return a > b ? a / b : b / a; }

// How a plan sends: codec and reducer of every parameter.
std::map<std::string, std::string> ways_of(const plan::Plan& plan) {
  std::map<std::string, std::string> ways;
  for (const plan::Bucket& b : plan.buckets)
    for (const std::string& p : b.parameters) ways[p] = b.sum + "/" + b.codec;
  return ways;
}

std::string seconds_text(double seconds) { return format_duration(from_seconds(seconds)); }

}  // namespace

cost::Rates fitted_rates(const plan::Plan& plan, const plan::StepCosts& costs, const cost::Rates& rates,
                         const MeasuredStep& measured) {
  const double compute = plan::step_shape(plan, costs, rates).compute;
  if (compute <= 0 || measured.compute_seconds <= 0) return rates;
  const double speed = compute / measured.compute_seconds;
  const auto step = [&](double link) { return predicted_step(plan, costs, scaled(rates, speed, link)); };
  double slow = 1 / kMostScale, fast = kMostScale;
  if (ratio(step(1), measured.step_seconds) < kAlike) return scaled(rates, speed, 1);
  if (measured.step_seconds <= step(fast)) return scaled(rates, speed, fast);
  for (int i = 0; i < 40; ++i) {
    const double middle = std::sqrt(slow * fast);
    (step(middle) > measured.step_seconds ? slow : fast) = middle;
  }
  return scaled(rates, speed, std::sqrt(slow * fast));
}

// A codec that was left for dense steps, which turned out longer.
std::optional<plan::Plan> CodecKeeper::better_one(const MeasuredStep& dense) const {
  const auto best = std::min_element(measured_.begin(), measured_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best->first == kDenseWord || best->second * kSlower >= dense.step_seconds) return std::nullopt;
  return tried_.at(best->first);
}

Result<CodecKeeper::Decision> CodecKeeper::decide(const job::Job& asked, const prepare::Prepared& prepared,
                                                  prepare::PrepareOptions options,
                                                  const MeasuredStep& measured) {
  const plan::Plan& plan = prepared.plan;
  const auto stays = [](std::string why) { return Decision{std::nullopt, std::move(why)}; };
  measured_[plan.codec] = measured.step_seconds;
  tried_[plan.codec] = plan;
  if (settled_) return stays("settled");
  if (changes_ >= kMostChanges) return stays("changed often enough");
  const auto compared = [&](const std::string& other) {
    return fmt::format("steps by '{}' took {}, by '{}' {}", plan.codec, seconds_text(measured.step_seconds),
                       other, seconds_text(measured_.at(other)));
  };
  if (std::optional<plan::Plan> back = plan.codec == kDenseWord ? better_one(measured) : std::nullopt) {
    settled_ = true;
    ++changes_;
    const std::string why = compared(back->codec);
    return Decision{std::move(back), why};
  }
  const auto dense = measured_.find(kDenseWord);
  const bool slower =
      plan.codec != kDenseWord && dense != measured_.end() && measured.step_seconds > kSlower * dense->second;
  const cost::Rates first = prepare::rates_of(options);
  TR_ASSIGN_OR_RETURN(const prepare::ParameterCosts costs,
                      prepare::costs_by_parameter(asked, options, prepared));
  const cost::Rates fitted = fitted_rates(plan, prepare::step_costs(plan, costs), first, measured);
  const double link = fitted.comm.link.bytes_per_second / first.comm.link.bytes_per_second,
               speed = fitted.machine.speed / first.machine.speed;
  const bool faster = link > kChanged * link_scale_;
  if (!slower && ratio(link, link_scale_) < kChanged && ratio(speed, speed_scale_) < kChanged)
    return stays("rates are as they were");
  link_scale_ = link;
  speed_scale_ = speed;
  options.rates = std::make_shared<const cost::Rates>(fitted);
  options.machine = fitted.machine;
  options.link = fitted.comm.link;
  TR_ASSIGN_OR_RETURN(plan::Plan next, prepare::cheapest_plan(asked, options, prepared, costs));
  // Short messages tell little about how fast a link is: dense ones are tried where they cannot be far worse.
  const bool tries = faster && plan.codec != kDenseWord && dense == measured_.end() &&
                     next.choices[0].step_seconds < kWorthATry * measured.step_seconds;
  if (slower || tries) {
    settled_ = slower;
    std::vector<plan::CodecChoice> choices = std::move(next.choices);
    TR_ASSIGN_OR_RETURN(next, prepare::fresh_plan(asked, options, prepared, {}));
    next.codec = kDenseWord;
    next.choices = std::move(choices);
  }
  next.job_sha256 = plan.job_sha256;
  if (ways_of(next) == ways_of(plan)) return stays("another choice would be the same");
  ++changes_;
  std::string why =
      slower
          ? compared(kDenseWord)
          : fmt::format(
                "links are {:.3g} times and machines {:.3g} times as fast as assumed; a step took {}, "
                "a dense one should take {}",
                link, speed, seconds_text(measured.step_seconds), seconds_text(next.choices[0].step_seconds));
  return Decision{std::move(next), std::move(why)};
}

bool chooses_again(const job::Job& asked, const plan::Plan& plan, int world) {
  const auto rule = agree::find_agreement(asked.parallel.agreement);
  const bool is_whole = plan.tiles == 1 && plan.segments == 1;  // what steps wait for is not the links alone
  return is_whole && job::sending_of(asked).is(job::Sending::Kind::kAuto) &&
         asked.train.logical_shards == 0 && world > 1 && plan.logical_shards == world && rule.ok() &&
         (*rule)->pace == agree::Pace::kStep;
}

namespace {

// The slowest of all workers, field by field.
Task<Result<MeasuredStep>> slowest_times(comm::Group& group, std::int64_t step, MeasuredStep own) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor all,
                         Tensor::allocate(cpu_device(), {DType::kF64, {group.world() * 2}}));
  double* mine = all.data<double>() + 2 * group.rank();
  mine[0] = own.compute_seconds;
  mine[1] = own.step_seconds;
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = plan::kSlotStepTimes;
  call.label = "times of steps";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  MeasuredStep most;
  for (int r = 0; r < group.world(); ++r) {
    most.compute_seconds = std::max(most.compute_seconds, all.data<double>()[2 * r]);
    most.step_seconds = std::max(most.step_seconds, all.data<double>()[2 * r + 1]);
  }
  co_return most;
}

// Rank 0: another plan with its kernels, as the others will get it. The kernels of the run are taken over
// where they say enough.
Task<Result<CodecChange>> decide_on_pool(RankContext& c, prepare::PrepareOptions options,
                                         std::shared_ptr<const prepare::Prepared> now, const CodecLook& look,
                                         MeasuredStep slowest) {
  Result<CodecKeeper::Decision> decision = Status(Code::kInternal, "[train] not decided");
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  co_await c.rt->compute(
      work, [&](runtime::ComputeContext&) { decision = look.keeper->decide(c.job, *now, options, slowest); },
      1, "choose codecs");
  if (!decision.ok()) co_return decision.status();
  CodecChange change{nullptr, decision->why};
  if (!decision->plan) co_return change;
  plan::Plan next = std::move(*decision->plan);
  next.chosen_at = look.step;
  next.kernels = now->plan.kernels;
  job::Job job = c.job;
  job.parallel.weights = "own";
  options.fixed = std::make_shared<const plan::Plan>(next);
  Result<std::shared_ptr<const prepare::Prepared>> made =
      co_await prepare_on_pool(*c.rt, job, *c.data, options);
  if (!made.ok() && made.status().code() == Code::kNotFound) {
    next.kernels.clear();
    options.fixed = std::make_shared<const plan::Plan>(std::move(next));
    made = co_await prepare_on_pool(*c.rt, job, *c.data, options);
  }
  if (!made.ok()) co_return made.status();
  change.prepared = std::move(*made);
  co_return change;
}

}  // namespace

Task<Result<CodecChange>> agree_on_codecs(RankContext& c, comm::Group& group,
                                          std::shared_ptr<const prepare::Prepared> now, CodecLook look) {
  TR_CO_ASSIGN_OR_RETURN(const MeasuredStep slowest, co_await slowest_times(group, look.step, look.own));
  prepare::PrepareOptions options = prepare_options(c, group);
  CodecChange change;
  std::string text;
  if (group.rank() == 0) {
    TR_CO_ASSIGN_OR_RETURN(change, co_await decide_on_pool(c, options, now, look, slowest));
    Json json{{"why", change.why}};
    if (change.prepared != nullptr) json["plan"] = plan::to_json(change.prepared->plan);
    text = json.dump();
  }
  const engine::TextCall call{.step = static_cast<std::uint32_t>(look.step),
                              .size_slot = plan::kSlotChoiceSize,
                              .slot = plan::kSlotChoice,
                              .label = "codecs"};
  Result<std::string> sent = co_await engine::broadcast_text(*c.rt, group, call, std::move(text));
  if (!sent.ok()) co_return sent.status();
  if (group.rank() == 0) co_return change;
  TR_CO_ASSIGN_OR_RETURN(const Json json, parse_json(*sent, "the codecs from rank 0"));
  TR_CO_ASSIGN_OR_RETURN(change.why, json_get<std::string>(json, "why"));
  if (!json.contains("plan")) co_return change;
  TR_CO_ASSIGN_OR_RETURN(const Json plan_json, json_get<Json>(json, "plan"));
  TR_CO_ASSIGN_OR_RETURN(plan::Plan plan, plan::plan_from_json(plan_json));
  options.fixed = std::make_shared<const plan::Plan>(std::move(plan));
  job::Job job = c.job;
  job.parallel.weights = "own";
  TR_CO_ASSIGN_OR_RETURN(change.prepared, co_await prepare_on_pool(*c.rt, job, *c.data, options));
  co_return change;
}

namespace {

// What this worker's encoders kept back of a bucket: residuals of gradients, and of the sum of its chunk.
void add_kept(const plan::Plan& plan, std::size_t bucket, int rank,
              const std::vector<std::pair<std::string, Tensor>>& state, std::span<float> into) {
  for (const auto& [name, tensor] : state) {
    const std::int64_t count = tensor.shape().num_elems();
    if (name == fmt::format("residual/{}", bucket)) {
      for (std::int64_t i = 0; i < count; ++i)
        into[static_cast<std::size_t>(i) % into.size()] += tensor.data<float>()[i];
    } else if (name == fmt::format("sums/{}", bucket)) {
      const std::int64_t elems = plan.buckets[bucket].num_elems, shards = plan.logical_shards;
      const std::int64_t begin = elems * rank / shards, end = elems * (rank + 1) / shards;
      for (std::int64_t i = begin; i < end; ++i)
        into[static_cast<std::size_t>(i)] += tensor.data<float>()[i - begin];
    }
  }
}

}  // namespace

Task<Result<std::map<std::string, Tensor>>> sum_residuals(comm::Group& group, const plan::Plan& plan,
                                                          const std::vector<model::Parameter>& parameters,
                                                          std::vector<std::pair<std::string, Tensor>> state,
                                                          std::int64_t step) {
  std::map<std::string, Tensor> kept;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const plan::Bucket& bucket = plan.buckets[b];
    if (bucket.message_bytes <= 0) continue;
    TR_CO_ASSIGN_OR_RETURN(const Tensor all, allocate_zeros(cpu_device(), {DType::kF32, {bucket.num_elems}}));
    add_kept(plan, b, group.rank(), state, all.values<float>());
    comm::Call call;
    call.step = static_cast<std::uint32_t>(step);
    call.slot = plan::Slots::residuals(b);
    call.label = "what encoders kept back";
    call.algorithm = "fixed-tree";
    for (int r = 0; r < group.world(); ++r) call.leaf_runs.push_back({r, 1});
    call.num_leaves = group.world();
    std::vector<Tensor> partials{all};
    TR_CO_RETURN_IF_ERROR(co_await group.allreduce_tree(std::move(call), partials, all));
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p)
      for (const model::Parameter& known : parameters)
        if (known.name == bucket.parameters[p])
          kept[known.name] = Tensor(all.buffer(), {DType::kF32, {known.type.shape.num_elems()}},
                                    all.offset_bytes() + static_cast<std::size_t>(bucket.offsets[p]) * 4);
  }
  co_return kept;
}

}  // namespace trireme::train
