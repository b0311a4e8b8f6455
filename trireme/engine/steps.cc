#include "trireme/engine/steps.h"

#include <algorithm>

#include "trireme/engine/first_broken.h"

namespace trireme::engine {

using runtime::Task;

Result<std::unique_ptr<Steps>> Steps::make(runtime::Runtime& rt, StepsOptions options,
                                           collective::LeafRun run) {
  std::unique_ptr<Steps> steps(new Steps(rt, std::move(options)));
  for (const auto& sum : *steps->o_.sums) TR_RETURN_IF_ERROR(sum->take_shards(run));
  steps->make_loss();
  TR_RETURN_IF_ERROR(steps->votes_->take_shards(run));
  TR_RETURN_IF_ERROR(steps->make_updates());
  steps->make_runs();
  steps->make_gathers();
  if (steps->o_.prepared->stages != nullptr) {
    steps->make_stages();
    TR_RETURN_IF_ERROR(steps->stages_->take_shards(run));
  } else {
    TR_RETURN_IF_ERROR(steps->runs_->take_shards(run));
  }
  TR_RETURN_IF_ERROR(steps->make_conductor(run));
  TR_RETURN_IF_ERROR(steps->make_feed(run));
  return steps;
}

Status Steps::take_shards(collective::LeafRun run) {
  for (const auto& sum : *o_.sums) TR_RETURN_IF_ERROR(sum->take_shards(run));
  TR_RETURN_IF_ERROR(votes_->take_shards(run));
  TR_RETURN_IF_ERROR(stages_ != nullptr ? stages_->take_shards(run) : runs_->take_shards(run));
  TR_ASSIGN_OR_RETURN(plan::StepProgram program, make_program(run));
  conductor_->set_program(std::move(program));
  return make_feed(run);
}

void Steps::make_loss() {
  const plan::StepParts& parts = o_.prepared->parts;
  std::vector<int> notices(plan().buckets.size(), 0);
  for (const int bucket : o_.prepared->bucket_of_notice)
    if (bucket >= 0) ++notices[static_cast<std::size_t>(bucket)];
  coming_.assign(static_cast<std::size_t>(parts.size()), 0);
  // A bucket that no notice tells of leaves when all is computed.
  for (std::size_t b = 0; b < notices.size(); ++b)
    coming_[static_cast<std::size_t>(parts.final_after[b])] += std::max(1, notices[b]);
  ++coming_[static_cast<std::size_t>(parts.loss_after)];
  const bool alone = plan().timetable != plan::Timetable::kLockStep;
  comm::Group* const replica = o_.lines != nullptr ? o_.lines->parts() : nullptr;
  const auto make = [&](plan::Slot slot) {
    auto vote = std::make_unique<Vote>(rt_, peers(), replica, plan().logical_shards, alone, slot);
    if (o_.prepared->stages != nullptr)
      vote->cut_in_depth({plan().segments, plan().tiles, o_.prepared->tile});
    if (o_.prepared->deals_shards) vote->deal_shards();
    return vote;
  };
  // The last stage is fewer steps ahead of the first than there are stages.
  votes_ = std::make_unique<Votes>(rt_, make,
                                   o_.prepared->never_drains() ? o_.prepared->stages->timetable.stages : 0);
  LossWatch::Options o;
  o.prepared = o_.prepared;
  o.gpu = o_.gpu;
  o.vote = &votes_->of(0);
  o.skips = o_.job->train.nan == "skip" || o_.prepared->scale_update != nullptr;
  o.on_known = [this, part = parts.loss_after](std::size_t place) { has_come(place, part); };
  loss_ = LossWatch::make(rt_, std::move(o));
}

// The cells are the logical shards that this rank has now. At its own pace a worker takes them one by one.
Result<plan::StepProgram> Steps::make_program(collective::LeafRun run) const {
  parallel::CellOwners owners = plan().cell_owners();
  owners.shards = *o_.owners;
  plan::StepSpec spec =
      plan::step_spec(plan(), owners, o_.prepared->parts, o_.prepared->traffic, o_.group->rank());
  if (plan().timetable == plan::Timetable::kLockStep) {
    TR_RETURN_IF_ERROR(plan::prove_steps(plan(), owners, o_.prepared->parts, o_.prepared->traffic));
  } else {
    spec.cells.assign(static_cast<std::size_t>(run.count), {});
  }
  return plan::build_step(spec);
}

Status Steps::make_updates() {
  UpdatesOptions o;
  o.job = o_.job;
  o.prepared = o_.prepared;
  o.gpu = o_.gpu;
  o.weights = o_.weights;
  o.sums = o_.sums;
  o.rank = peers().rank();
  o.world = peers().world();
  o.here = o_.updates_here;
  o.in_parts = o_.shared || plan().zero_level() > 0;
  o.tiles = o_.lines != nullptr ? o_.lines->model() : nullptr;
  TR_ASSIGN_OR_RETURN(updates_, Updates::make(rt_, o));
  return {};
}

void Steps::make_runs() {
  ShardRunsOptions o;
  o.prepared = o_.prepared;
  o.gpu = o_.gpu;
  o.weights = o_.weights;
  o.sums = o_.sums;
  o.loss = loss_.get();
  o.host_ops = host_ops_->table();
  o.profile = o_.job->train.trace_steps > 0;
  o.several_batches = o_.job->train.optimizer.max_batch_multiplier > 1;
  o.on_notice = [this](std::size_t place, int notice, const std::shared_ptr<Event>& point) {
    on_notice(place, notice, point);
  };
  if (!o_.prepared->gathers.empty()) o.on_held = [this] { gathers_->on_held(); };
  runs_ = std::make_unique<ShardRuns>(rt_, std::move(o));
}

// What is told of a segment is told of those behind it that are elsewhere.
void Steps::make_stages() {
  StageRunsOptions o;
  o.prepared = o_.prepared;
  o.weights = o_.weights;
  o.sums = o_.sums;
  o.gathers = gathers_.get();
  o.line = o_.lines != nullptr ? o_.lines->stages() : nullptr;
  o.host_ops = host_ops_->table();
  o.votes = votes_.get();
  o.trace = o_.trace;
  o.busy = &busy_;
  o.skips = o_.job->train.nan == "skip" || o_.prepared->scale_update != nullptr;
  o.several_batches = o_.job->train.optimizer.max_batch_multiplier > 1;
  const auto tell = [this](std::int32_t last) {
    for (std::int32_t part = 0; part <= last; ++part)
      for (std::size_t place = 0; place < votes_->num_shards(); ++place) conductor_->computed(place, part);
  };
  o.on_losses = [this, tell] { tell(o_.prepared->parts.loss_after); };
  o.on_done = [this, tell](std::int32_t segment) { tell(prepare::part_of_segment(plan(), segment)); };
  stages_ = std::make_unique<StageRuns>(rt_, std::move(o));
}

void Steps::make_gathers() {
  WeightGathersOptions o;
  o.prepared = o_.prepared;
  o.peers = &peers();
  o.weights = o_.weights;
  o.runs = runs_.get();
  gathers_ = std::make_unique<WeightGathers>(rt_, o);
  turns_ = std::make_unique<GradientTurns>(o_.prepared->places, *runs_);
}

Status Steps::make_conductor(collective::LeafRun run) {
  ConductorOptions o;
  o.plan = &plan();
  o.group = o_.group;
  o.peers = &peers();
  o.rule = o_.rule;
  o.sums = o_.sums;
  o.votes = votes_.get();
  o.runs = runs_.get();
  o.updates = updates_.get();
  o.gathers = gathers_.get();
  o.turns = turns_.get();
  o.trace = o_.trace;
  o.busy = stages_ != nullptr ? &busy_ : nullptr;
  o.owners = o_.owners;
  o.shared = o_.shared;
  TR_ASSIGN_OR_RETURN(plan::StepProgram program, make_program(run));
  conductor_ = std::make_unique<Conductor>(rt_, o, std::move(program));
  return {};
}

Status Steps::make_feed(collective::LeafRun run) {
  BatchFeedOptions o;
  o.input = o_.prepared->input;
  o.data = o_.data;
  TR_ASSIGN_OR_RETURN(o.order, job::SampleOrder::make(*o_.data, *o_.job, plan().logical_shards,
                                                      !o_.prepared->statistics.empty()));
  o.shards = run;
  if (o_.prepared->deals_shards) {
    o.shards.first = peers().rank();
    o.stride = peers().world();
  }
  o.seed = static_cast<std::uint64_t>(o_.job->train.seed);
  o.depth = static_cast<int>(o_.job->data.prefetch) + static_cast<int>(o_.prepared->steps_ahead());
  o.ahead = o_.gpu->ahead;
  TR_ASSIGN_OR_RETURN(feed_, BatchFeed::make(rt_, std::move(o)));
  return {};
}

void Steps::begin(const StepInput& input) {
  now_.input = input;
  now_.exchange_early = input.num_batches == 1 && plan().overlap != plan::Overlap::kNone;
  now_.failure = {};
  now_.pending.assign(runs_->size(), coming_);
  turns_->begin();
  conductor_->expect(input);
}

// Several batches, or one that is waited for: parts are told when all of it is computed.
void Steps::has_come(std::size_t place, std::int32_t part) {
  if (!now_.exchange_early) return;
  std::vector<int>& pending = now_.pending[place];
  if (--pending[static_cast<std::size_t>(part)] > 0) return;
  for (std::int32_t p = 0; p <= part; ++p)  // those before it that nothing tells of
    if (pending[static_cast<std::size_t>(p)] == 0) conductor_->computed(place, p);
}

void Steps::on_notice(std::size_t place, int notice, const std::shared_ptr<Event>& point) {
  if (!o_.prepared->gathers.empty()) gathers_->on_notice(notice);
  if (o_.gpu->queue == nullptr && o_.gpu->mirror != nullptr && !now_.exchange_early) return;
  if (now_.failure.ok()) now_.failure = loss_->on_notice(place, notice, point);
  if (!now_.failure.ok() || loss_->broken_place() >= 0) return turns_->open_all();  // nothing is added
  if (o_.gpu->queue != nullptr) return;
  const int bucket = o_.prepared->bucket_of_notice[static_cast<std::size_t>(notice)];
  if (bucket >= 0) has_come(place, o_.prepared->parts.final_after[static_cast<std::size_t>(bucket)]);
}

// Those of later steps that begin before this one ends are held too.
Task<Status> Steps::take_batches() {
  const std::int64_t per_epoch = feed_->order().batches_per_epoch();
  const auto most = static_cast<std::size_t>(o_.prepared->steps_ahead()) + 1;
  while (held_.size() < most) {
    StepInput later = now_.input;
    const auto after = static_cast<std::int64_t>(held_.size());
    if (now_.input.first_batch + after >= now_.input.end_batch) break;
    TR_CO_ASSIGN_OR_RETURN(now_.batch, co_await feed_->next());
    later.step += after;
    later.num_samples = feed_->order().samples_in_batch((later.first_batch + after) % per_epoch);
    finish_batch(later);
    held_.push_back(now_.batch);
  }
  co_return Status();
}

Task<Status> Steps::run_overlapping(StepOutput& out) {
  const TimeNs asked = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await take_batches());
  out.data_ns = rt_.now() - asked;
  StageStep now;
  now.step = now_.input.step;
  now.end = now_.input.step + (now_.input.end_batch - now_.input.first_batch);
  now.batches = held_;
  TR_CO_RETURN_IF_ERROR(co_await stages_->run(now));
  if (broken_place() >= 0) co_return Status();
  held_.erase(held_.begin());
  feed_->release();
  out.ages = stages_->take_ages();
  co_return Status();
}

// The batch was made for any step: its weights become shares of this one's mean.
void Steps::finish_batch(const StepInput& step) {
  if (rt_.is_phantom()) return;
  const std::int64_t samples = step.num_samples;
  const float weight = samples > 0 ? 1.0F / static_cast<float>(samples) : 0.0F;
  const Result<Tensor> scale = o_.weights->variables().get(prepare::kLossScale);
  for (const prepare::BatchTensors& b : now_.batch) {
    for (float& w : b.weights.values<float>()) w *= weight;
    *b.step.data<std::int64_t>() = step.step;
    if (scale.ok()) *b.loss_scale.data<float>() = *scale->data<float>();
  }
}

Status Steps::keep_batch() {
  for (const prepare::BatchTensors& b : now_.batch)
    for (const Tensor* t : b.all()) {
      if (t->is_null() || t->type().num_bytes() == 0) continue;
      TR_RETURN_IF_ERROR(o_.gpu->mirror->add(*t));
      TR_RETURN_IF_ERROR(o_.gpu->mirror->upload(*t));
    }
  return {};
}

Task<Status> Steps::run_shard(std::size_t place) {
  const TimeNs began = rt_.now();
  const std::vector<std::size_t> open = conductor_->applied();
  const auto number = static_cast<std::uint64_t>(now_.input.step * plan().logical_shards) + place;
  Status status = co_await runs_->run(place, number, now_.batch[place], open);
  if (status.ok()) status = now_.failure;
  if (status.ok()) status = co_await loss_->on_end(place);
  if (!status.ok() && turns_->take_turns()) runs_->cancel(status);  // others would wait for its gradients
  o_.trace->note(fmt::format("shard {}", runs_->shard_at(place)), "compute", static_cast<int>(place), began);
  co_return status;
}

Task<Status> Steps::run_batch(std::int64_t number) {
  if (stages_ != nullptr) {
    StageStep now;
    now.step = now_.input.step;
    now.batch = number;
    now.num_batches = now_.input.num_batches;
    now.batches = {&now_.batch, 1};
    co_return co_await stages_->run(now);
  }
  std::vector<Task<Status>> running;
  for (std::size_t s = 0; s < runs_->size(); ++s) running.push_back(run_shard(s));
  co_return co_await runtime::when_all(rt_, std::move(running));
}

Task<Status> Steps::run_batches(StepOutput& out) {
  if (o_.prepared->never_drains()) co_return co_await run_overlapping(out);
  const std::int64_t count = now_.input.num_batches;
  for (std::int64_t i = 0; i < count; ++i) {
    const TimeNs asked = rt_.now();
    if (!o_.one_batch || now_.batch.empty()) {
      auto next = co_await feed_->next();
      if (!next.ok()) co_return next.status();
      out.data_ns += rt_.now() - asked;
      if (out.data_ns > 0) o_.trace->note("wait for data", "data", 0, asked);
      now_.batch = *next;
      finish_batch(now_.input);
      if (o_.one_batch && o_.gpu->mirror != nullptr) TR_CO_RETURN_IF_ERROR(keep_batch());
    }
    loss_->begin_batch(runs_->size());
    gathers_->begin(static_cast<std::uint32_t>(now_.input.step), static_cast<std::uint16_t>(i));
    TR_CO_RETURN_IF_ERROR(co_await run_batch(i));
    if (broken_place() >= 0) co_return Status();  // the batch is still needed
    if (!o_.one_batch) feed_->release();
    if (count == 1) continue;
    co_await runs_->add_batch(i == 0, i + 1 == count);
    votes_->of(now_.input.step).keep_batch(i == 0, i + 1 == count);
  }
  co_return Status();
}

Task<Status> Steps::explain_broken_loss() {
  std::string what;
  // The graph alone has no weights, or this rank not all of it.
  if (gathers_->divides_parameters() || stages_ != nullptr) co_return broken_loss(what);
  TR_CO_RETURN_IF_ERROR(co_await o_.gpu->wait_for_queue(rt_));
  if (o_.gpu->mirror != nullptr) TR_CO_RETURN_IF_ERROR(o_.gpu->mirror->download_all());
  const auto alone =
      o_.lines != nullptr ? o_.lines->make_lone_host_ops() : comm::make_lone_host_ops(o_.group->rank());
  const RunAgain again{o_.prepared->device, alone->table(), o_.prepared->tile};
  auto found = co_await find_first_broken(rt_, o_.prepared->train->graph(), o_.weights->variables(),
                                          o_.prepared->input,
                                          now_.batch[static_cast<std::size_t>(loss_->broken_place())], again);
  if (found.ok() && !found->empty()) what = "; the first tensor that broke: " + *found;
  co_return broken_loss(what);
}

Status Steps::broken_loss(const std::string& what) const {
  return error(
      Code::kInternal,
      "[train] the loss is not a number at step {}{}; try a smaller train.optimizer.lr (the learning rate "
      "here was {}), a longer train.optimizer.warmup, train.optimizer.clip_norm = 1.0, or "
      "train.nan = \"skip\"",
      now_.input.step + 1, what, now_.input.learning_rate);
}

Task<Status> Steps::fail(Status status) {
  status = co_await conductor_->fail(std::move(status));
  co_await gathers_->drained();
  if (stages_ != nullptr) co_await stages_->drained();
  co_await votes_->drained();
  co_return status;
}

Task<Result<std::vector<StepResult>>> Steps::late_results() {
  std::vector<StepResult> results;
  const Status status = co_await votes_->wait_for_all(results);
  if (!status.ok()) co_return co_await fail(status);
  if (o_.prepared->never_drains()) co_await stages_->drained();
  co_return results;
}

Task<Result<StepOutput>> Steps::run(StepInput input) {
  StepOutput out;
  begin(input);
  const TimeNs started = rt_.now(), busy_before = busy_.total();
  Status status = co_await run_batches(out);
  if (status.ok() && broken_place() >= 0) {
    status = co_await conductor_->wait_for_all();  // of the step before: what is explained is its result
    if (status.ok()) status = co_await explain_broken_loss();
  }
  if (!status.ok()) co_return co_await fail(std::move(status));
  const TimeNs computed = rt_.now();
  conductor_->computed_all();
  // Bounded by the group: a lost, silent or stuck rank ends every sum with its verdict.
  if (plan().overlap != plan::Overlap::kFull) status = co_await conductor_->wait_for_all();
  if (status.ok()) status = co_await conductor_->wait_for_vote(out);
  out.overlaps = votes_->lag();
  if (status.ok() && out.overlaps) status = co_await votes_->wait_behind(now_.input.step, out.earlier);
  if (!status.ok()) co_return co_await fail(std::move(status));
  const TimeNs held = stages_ != nullptr ? stages_->waited().for_replicas : runs_->held_ns();
  out.axis_ns = met_ns();
  out.compute_ns = std::max<TimeNs>(0, computed - started - out.data_ns - held - out.axis_ns);
  out.exposed_ns = rt_.now() - computed + held + out.axis_ns;
  out.busy_ns = busy_.total() - busy_before;
  if (stages_ != nullptr) out.kept_bytes = stages_->kept_bytes();
  co_return out;
}

Task<Result<StepOutput>> Steps::run_unit(StepInput input, std::span<const prepare::BatchTensors> batch) {
  StepOutput out;
  begin(input);
  now_.batch = batch;
  const agree::StepInfo info{input.step, input.learning_rate};
  const TimeNs started = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await o_.rule->begin_step(info));
  if (o_.whole != nullptr) {
    const std::vector<Tensor>& weights = o_.weights->vectors();
    WholeParameters::Moved moved = [this](std::size_t bucket, std::int64_t begin, std::span<const float> by) {
      o_.rule->on_moved(bucket, begin, by);
    };
    TR_CO_RETURN_IF_ERROR(
        co_await o_.whole->take_over(weights, plan::kSlotCheck, input.step, std::move(moved)));
  }
  const TimeNs may_compute = rt_.now();
  finish_batch(now_.input);
  loss_->begin_batch(runs_->size());
  Status status = co_await run_shard(0);
  if (status.ok() && loss_->broken_place() >= 0) status = co_await explain_broken_loss();
  if (!status.ok()) co_return co_await conductor_->fail(std::move(status));
  const TimeNs computed = rt_.now();
  conductor_->computed_all();
  status = co_await conductor_->wait_for_all();
  if (status.ok()) status = co_await conductor_->wait_for_vote(out);
  if (!status.ok()) co_return co_await conductor_->fail(std::move(status));
  TR_CO_RETURN_IF_ERROR(co_await o_.rule->end_step(info));
  out.axis_ns = runs_->met_ns();
  out.compute_ns = std::max<TimeNs>(0, computed - may_compute - out.axis_ns);
  out.exposed_ns = (may_compute - started) + (rt_.now() - computed) + out.axis_ns;
  co_return out;
}

}  // namespace trireme::engine
