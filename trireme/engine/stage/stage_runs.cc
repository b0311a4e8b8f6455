#include "trireme/engine/stage/stage_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "trireme/parallel/pipeline/continuous.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using parallel::Phase;
using runtime::Task;

namespace {

const char* phase_name(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "weight gradients";
}

// For traces. Where B and W are one phase W has nothing left to do, and is not shown.
std::string span_of(Phase phase, bool splits_weights) {
  if (!splits_weights && phase == Phase::kBackward) return "B+W";
  if (!splits_weights && phase == Phase::kWeights) return "";
  return std::string(1, parallel::phase_letter(phase));
}

}  // namespace

Status StageRuns::make_virtual_stages() {
  own_.clear();
  for (const prepare::StageSegment& s : stages().segments) {
    const std::int32_t number = stages().virtual_stage_of(s.index);
    if (own_.empty() || own_.back().stage.number != number) own_.emplace_back().stage.number = number;
    own_.back().stage.segments.push_back(&s);
  }
  std::size_t bytes = 1;
  for (const prepare::StageSegment& s : stages().segments)
    bytes = std::max(bytes, static_cast<std::size_t>(s.train->scratch_bytes()));
  if (rt_.is_phantom()) {
    scratch_ = Buffer::phantom(phantom_device(), bytes);
    return {};
  }
  TR_ASSIGN_OR_RETURN(scratch_, cpu_device().allocate(bytes));
  return {};
}

// A micro-batch has a place of its virtual stage from F to W; the one that is free longest is taken again.
void StageRuns::give_places() {
  std::vector<std::vector<std::size_t>> free(own_.size());
  std::vector<std::vector<std::int64_t>> taken(own_.size());  // per place: by how many
  std::map<std::pair<std::size_t, int>, Turn> so_far;         // of own virtual stage and micro-batch
  for (Turn& turn : turns_) {
    const parallel::TimetableAction a = turn.action;
    std::size_t own = 0;
    while (own_[own].stage.number != a.virtual_stage) ++own;
    Turn& mine = so_far[{own, a.micro_batch}];
    if (a.phase == Phase::kForward) {
      mine.own = own;
      if (free[own].empty()) {
        mine.place = taken[own].size();
        taken[own].push_back(0);
      } else {
        mine.place = free[own].front();
        free[own].erase(free[own].begin());
      }
      mine.number = taken[own][mine.place]++;
    }
    turn = mine;
    turn.action = a;
    if (a.phase == Phase::kWeights) free[own].push_back(mine.place);
  }
  for (std::size_t s = 0; s < own_.size(); ++s) own_[s].places.resize(taken[s].size());
}

// By turns: micro-batches end in the order in which they begin.
StageRuns::Turn StageRuns::turn_in_run(const parallel::TimetableAction& action) const {
  const auto places = static_cast<std::int64_t>(own_[0].places.size());
  return {0, static_cast<std::size_t>(action.micro_batch % places), action.micro_batch / places, action};
}

Status StageRuns::make_places() {
  StageSlotOptions options{o_.prepared, o_.weights, &gradients_, scratch_, o_.host_ops};
  for (Own& own : own_)
    for (Place& place : own.places) {
      TR_ASSIGN_OR_RETURN(place.slot, make_stage_slot(rt_, options, own.stage));
      place.reads = &o_.weights->variables();
    }
  return {};
}

Status StageRuns::take_shards(collective::LeafRun run) {
  spec_ = stages().timetable;
  spec_.micro_batches = run.count;
  TR_ASSIGN_OR_RETURN(row_, parallel::find_timetable_row(spec_.kind));
  TR_RETURN_IF_ERROR(make_virtual_stages());
  TR_RETURN_IF_ERROR(gradients_.make(o_.several_batches ? static_cast<std::size_t>(run.count) : 0));
  if (o_.gathers->divides_parameters()) {
    TR_ASSIGN_OR_RETURN(prepare::WeightUses uses, prepare::uses_of_step(*o_.prepared));
    weights_ = std::make_unique<SegmentWeights>(rt_, *o_.gathers, SegmentWeights::Of::kSteps);
    weights_->set_uses(std::move(uses));
  }
  turns_.clear();
  if (row_->is_synchronous) {
    TR_ASSIGN_OR_RETURN(const parallel::StageActions actions, build_timetable(spec_, stages().stage));
    for (const parallel::TimetableAction& a : actions)
      if (a.phase != Phase::kUpdate) turns_.push_back({.action = a});
    num_now_ = turns_.size();
    give_places();
  } else {
    run_.versions = std::make_unique<WeightVersions>(rt_, *o_.weights);
    own_[0].places.resize(static_cast<std::size_t>(places_of_run(spec_, *row_, stages().stage)));
  }
  return make_places();
}

std::int64_t StageRuns::step_of(int micro_batch) const {
  return never_drains() ? run_.first_step + micro_batch / spec_.micro_batches : now_.step;
}
int StageRuns::place_in_step(int micro_batch) const {
  return never_drains() ? micro_batch % spec_.micro_batches : micro_batch;
}

void StageRuns::begin(const StageStep& now) {
  now_ = {now.step, now.batch, now.batch == 0, now.batch + 1 == now.num_batches};
  if (never_drains()) {
    begin_in_run(now);
  } else {
    asked_.forward = asked_.back = 0;
    for (Own& own : own_)
      for (Place& place : own.places) place.begun = place.finished = 0;
  }
  for (int place = 0; place < spec_.micro_batches && !rt_.is_phantom(); ++place)
    std::fill_n(o_.votes->of(now_.step).metrics(static_cast<std::size_t>(place)).data<float>(), 2,
                0.0F);  // who has the loss writes it
  losses_seen_ = 0;
  broken_ = -1;
  if (now_.first) {
    waited_ = 0;
    gradients_.begin();
  }
  if (weights_ != nullptr) weights_->begin(static_cast<std::uint32_t>(now_.step), now_.first);
  const bool has_losses = std::any_of(stages().segments.begin(), stages().segments.end(), [](const auto& s) {
    return s.train->graph().find_output("loss").has_value();
  });
  if (!has_losses && now_.first && now_.last) o_.on_losses();
}

// What was asked for ahead is of this step now.
void StageRuns::begin_in_run(const StageStep& now) {
  if (run_.first_step < 0) run_.first_step = now.step;
  const std::int64_t step = now.step - run_.first_step, steps = now.end - run_.first_step;
  asked_.forward -= std::min(asked_.forward, num_now_);
  asked_.back = 0;
  turns_.clear();
  for (std::int64_t s = step; s < std::min(step + 2, steps); ++s) {
    for (const auto& a : actions_of_step(spec_, *row_, stages().stage, s, steps))
      if (a.phase != Phase::kUpdate) turns_.push_back(turn_in_run(a));
    if (s == step) num_now_ = turns_.size();
  }
}

// Whoever had the place has added its gradients, and what it sends has left.
bool StageRuns::has_room(const Turn& turn) {
  const Place& place = place_of(turn);
  return place.finished == turn.number && place.leaving == 0;
}

// In the order of the timetable, forward and back each for itself. A gradient of the next step comes in the
// next step.
void StageRuns::ask() {
  if (o_.line == nullptr || !failure_.ok()) return;
  const auto post = [this](const Turn& turn, const std::vector<SlotValue>& values, bool back) {
    for (const SlotValue& value : values) {
      ++place_of(turn).coming[back ? 1 : 0];
      ++under_way_;
      rt_.spawn(receive(turn, value, back));
    }
  };
  for (; asked_.forward < turns_.size(); ++asked_.forward) {
    const Turn& turn = turns_[asked_.forward];
    if (turn.action.phase != Phase::kForward) continue;
    if (!has_room(turn)) break;
    post(turn, place_of(turn).slot.received, false);
  }
  for (; asked_.back < num_now_; ++asked_.back) {
    const Turn& turn = turns_[asked_.back];
    if (turn.action.phase != Phase::kBackward) continue;
    if (place_of(turn).begun <= turn.number && !has_room(turn)) break;
    post(turn, place_of(turn).slot.received_back, true);
  }
}

// Both neighbors along the chain know the virtual stage that sends.
comm::Call StageRuns::message(const Turn& turn, const SlotValue& value, bool back, bool sends) const {
  const parallel::TimetableAction& a = turn.action;
  const std::int32_t own = a.virtual_stage, from = sends ? own : back ? own + 1 : own - 1;
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step_of(a.micro_batch));
  call.iteration =
      static_cast<std::uint16_t>(now_.batch * spec_.micro_batches + place_in_step(a.micro_batch));
  // A gradient is sent by the stage behind the end that it passes.
  const std::int32_t end = back ? from - 1 : from;
  call.slot = static_cast<std::uint16_t>(stages().train_slots[value.number][static_cast<std::size_t>(end)] +
                                         (back ? 1 : 0));
  // The segment of this rank at that end of the stage.
  const VirtualStage& stage = own_[turn.own].stage;
  call.label = fmt::format("of {}, micro-batch {}, segment {}", back ? "gradients" : "activations",
                           place_in_step(a.micro_batch), back == sends ? stage.first() : stage.last());
  return call;
}

Task<void> StageRuns::receive(Turn turn, SlotValue value, bool back) {
  const std::int32_t from = turn.action.virtual_stage + (back ? 1 : -1);
  const Status status = co_await o_.line->recv(message(turn, value, back, false),
                                               stages().timetable.stage_of(from), value.memory);
  --under_way_;
  --place_of(turn).coming[back ? 1 : 0];
  if (!status.ok() && failure_.ok()) failure_ = status;
  changed();
}

Task<void> StageRuns::send(Turn turn, SlotValue value, bool back) {
  const std::int32_t to = turn.action.virtual_stage + (back ? -1 : 1);
  const Status status =
      co_await o_.line->send(message(turn, value, back, true), stages().timetable.stage_of(to), value.memory);
  --under_way_;
  --place_of(turn).leaving;
  if (!status.ok() && failure_.ok()) failure_ = status;
  ask();
  changed();
}

void StageRuns::spawn_sends(const Turn& turn) {
  if (o_.line == nullptr) return;
  const bool back = turn.action.phase != Phase::kForward;
  Place& place = place_of(turn);
  for (const SlotValue& value : back ? place.slot.sent_back : place.slot.sent) {
    ++place.leaving;
    ++under_way_;
    rt_.spawn(send(turn, value, back));
  }
}

std::int64_t StageRuns::kept_bytes() const {
  std::int64_t bytes = 0;
  for (const Own& own : own_)
    for (const Place& place : own.places) bytes += place.slot.kept_bytes;
  return bytes;
}

void StageRuns::changed() {
  if (change_ != nullptr) change_->set(true);
}

Task<void> StageRuns::wait_for_change() {
  change_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await change_->wait_until(kForever);  // messages end with the group's verdict at the latest
  change_ = nullptr;
}

Task<Status> StageRuns::wait_until_ready(const Turn& turn) {
  const bool forward = turn.action.phase == Phase::kForward;
  const Place& place = place_of(turn);
  // W needs nothing beside its B.
  const auto comes = [&] {
    return turn.action.phase != Phase::kWeights && place.coming[forward ? 0 : 1] > 0;
  };
  const TimeNs began = rt_.now();
  while (failure_.ok() && (comes() || (forward && !has_room(turn)))) co_await wait_for_change();
  if (const TimeNs waited = rt_.now() - began; waited > 0) {
    waited_ += waited;
    o_.trace->note(fmt::format("wait for {}", turn.action.to_text()), "wait", turn.action.virtual_stage,
                   began);
  }
  co_return failure_;
}

Status StageRuns::rebind(Place& place) {
  const exec::Variables& variables = run_.versions->of(place.version);
  if (place.reads == &variables) return {};
  for (const auto& execution : place.slot.executions) TR_RETURN_IF_ERROR(execution->rebind(variables));
  place.reads = &variables;
  return {};
}

// The version that the timetable says: forward and back are by the same. What is not stashed is the newest.
Status StageRuns::take_weights(const Turn& turn) {
  if (!never_drains()) return {};
  Place& place = place_of(turn);
  place.version = row_->version_read(spec_, stages().stage, turn.action.micro_batch);
  TR_CHECK(spec_.weight_stashing || place.version == run_.versions->newest(),
           "{} reads version {} of weights, of which {} is the only one", turn.action.to_text(),
           place.version, run_.versions->newest());
  return rebind(place);
}

// Before the update at the end of a step: whoever has gone forward, or will, by the weights before it has a
// copy of them, unless weights are not stashed: then what has gone forward goes back by the updated ones.
Task<Status> StageRuns::end_weights(const Turn& turn) {
  const int micro_batch = turn.action.micro_batch;
  ++run_.ages[run_.versions->newest() - place_of(turn).version];
  if (place_in_step(micro_batch) + 1 < spec_.micro_batches) co_return Status();
  const std::int64_t oldest = row_->version_read(spec_, stages().stage, micro_batch + 1);
  run_.versions->forget_before(oldest);
  const bool is_last = num_now_ == turns_.size();  // no step follows
  if (oldest <= run_.versions->newest() && !is_last && spec_.weight_stashing) {
    TR_CO_RETURN_IF_ERROR(co_await run_.versions->keep());
    for (Place& place : own_[0].places)
      if (place.begun > place.finished && &place != &place_of(turn)) TR_CO_RETURN_IF_ERROR(rebind(place));
  }
  run_.versions->count_update();
  const auto& segments = own_[0].stage.segments;
  for (auto s = segments.rbegin(); s != segments.rend(); ++s) o_.on_done((*s)->index);
  co_return Status();
}

// The loss is a number before any gradient of the micro-batch leaves.
Status StageRuns::look_at_loss(const Turn& turn, const exec::Execution& execution,
                               const prepare::StageSegment& segment) {
  if (!segment.train->graph().find_output("loss")) return {};
  const int in_step = place_in_step(turn.action.micro_batch);
  const bool counts = o_.prepared->tile == 0 && !rt_.is_phantom();  // every tile has them
  const Tensor metrics = o_.votes->of(now_.step).metrics(static_cast<std::size_t>(in_step));
  const std::pair<const char*, std::size_t> outputs[] = {{"loss", 0}, {"correct", 1}};
  for (const auto& [name, place] : outputs) {
    if (rt_.is_phantom() || !segment.train->graph().find_output(name)) continue;
    TR_ASSIGN_OR_RETURN(const Tensor value, execution.fetch(name));
    const float now = *value.data<float>();
    if (counts) metrics.data<float>()[place] = now;
    if (place == 0 && !o_.skips && !std::isfinite(now)) broken_ = in_step;
  }
  const bool all_seen = ++losses_seen_ == static_cast<std::size_t>(spec_.micro_batches);
  if (all_seen && broken_ < 0 && now_.first && now_.last) o_.on_losses();
  return {};
}

// What the phase reads has come from them, and what it writes is theirs no more.
Task<Status> StageRuns::wait_for_replicas(const Turn& turn, const prepare::StageSegment& segment) {
  const TimeNs began = rt_.now();
  if (turn.action.phase == Phase::kWeights) TR_CO_RETURN_IF_ERROR(co_await gradients_.make_room(segment));
  if (weights_ != nullptr) TR_CO_RETURN_IF_ERROR(co_await weights_->take());
  if (rt_.now() > began)
    o_.trace->note(fmt::format("wait for replicas, {}", turn.action.to_text()), "wait",
                   turn.action.virtual_stage, began);
  co_return Status();
}

Task<Status> StageRuns::run_phase(const Turn& turn, const prepare::BatchTensors& batch) {
  const Phase phase = turn.action.phase;
  const VirtualStage& stage = own_[turn.own].stage;
  const std::size_t count = stage.segments.size();
  const auto number =
      static_cast<std::uint64_t>(step_of(turn.action.micro_batch) * o_.prepared->plan.logical_shards) +
      static_cast<std::uint64_t>(place_in_step(turn.action.micro_batch));
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t s = phase == Phase::kForward ? k : count - 1 - k;
    exec::Execution& execution = *place_of(turn).slot.executions[s];
    const prepare::StageSegment& segment = *stage.segments[s];
    if (phase == Phase::kForward)
      TR_CO_RETURN_IF_ERROR(
          prepare::feed_batch(execution, segment.train->graph(), o_.prepared->input, batch));
    exec::RunOptions how;
    how.number = number;
    how.phase = static_cast<int>(phase);
    TR_CO_RETURN_IF_ERROR(co_await wait_for_replicas(turn, segment));
    {
      const BusyTime::Span busy(o_.busy);
      TR_CO_RETURN_IF_ERROR(co_await execution.run(how));
    }
    if (weights_ != nullptr) weights_->give_back();
    // Before another segment writes there.
    if (phase == Phase::kWeights && o_.prepared->deals_shards)
      TR_CO_RETURN_IF_ERROR(co_await add_gradients(turn, s));
    if (phase == Phase::kForward) TR_CO_RETURN_IF_ERROR(look_at_loss(turn, execution, segment));
  }
  co_return Status();
}

Task<Status> StageRuns::add_gradients(const Turn& turn, std::size_t segment) {
  const BusyTime::Span busy(o_.busy);
  StageGradients::Place place;
  place.step = static_cast<std::uint32_t>(step_of(turn.action.micro_batch));
  place.number = static_cast<std::size_t>(place_in_step(turn.action.micro_batch));
  place.first_batch = now_.first;
  place.last_batch = now_.last;
  place.is_last = place.number + 1 == static_cast<std::size_t>(spec_.micro_batches) && !never_drains() &&
                  now_.first && now_.last;
  const exec::Execution& execution = *place_of(turn).slot.executions[segment];
  co_return co_await gradients_.add(execution, *own_[turn.own].stage.segments[segment], place);
}

Task<Status> StageRuns::compute(const Turn& turn, const StageStep& now) {
  TR_CO_RETURN_IF_ERROR(co_await wait_until_ready(turn));
  const Phase phase = turn.action.phase;
  const int micro_batch = turn.action.micro_batch;
  const TimeNs began = rt_.now();
  if (phase == Phase::kForward) {
    ++place_of(turn).begun;
    TR_CO_RETURN_IF_ERROR(take_weights(turn));
  }
  const auto after = static_cast<std::size_t>(step_of(micro_batch) - now.step);
  const prepare::BatchTensors& batch =
      now.batches[after][static_cast<std::size_t>(place_in_step(micro_batch))];
  TR_CO_RETURN_IF_ERROR(co_await run_phase(turn, batch));
  if (const std::string span = span_of(phase, stages().splits_weights); !span.empty())
    o_.trace->note(fmt::format("{} {}", span, place_in_step(micro_batch)), phase_name(phase),
                   turn.action.virtual_stage, began);
  if (broken_ >= 0) co_return Status();
  // Where B and W are one action, gradients leave behind it, and before the own ones are added: the stage
  // before waits for them.
  const Phase sends_back = row_->splits_weights ? Phase::kBackward : Phase::kWeights;
  if (phase == Phase::kForward || phase == sends_back) spawn_sends(turn);
  if (phase == Phase::kWeights) {
    for (std::size_t s = own_[turn.own].stage.segments.size(); s-- > 0 && !o_.prepared->deals_shards;)
      TR_CO_RETURN_IF_ERROR(co_await add_gradients(turn, s));
    if (never_drains()) TR_CO_RETURN_IF_ERROR(co_await end_weights(turn));
    ++place_of(turn).finished;
  }
  ask();
  co_return Status();
}

Task<Status> StageRuns::run(StageStep now) {
  begin(now);
  ask();
  for (Index i = 0; i < num_now_ && broken_ < 0; ++i) {
    const Turn turn = turns_[i];
    TR_CO_RETURN_IF_ERROR(co_await compute(turn, now));
  }
  if (broken_ >= 0) co_return Status();
  if (!never_drains()) co_await drained();
  TR_CO_RETURN_IF_ERROR(co_await gradients_.drained());
  co_return failure_;
}

Task<void> StageRuns::drained() {
  while (under_way_ > 0) co_await wait_for_change();
  (void)co_await gradients_.drained();
  if (weights_ != nullptr) co_await weights_->drained();
}

}  // namespace trireme::engine
