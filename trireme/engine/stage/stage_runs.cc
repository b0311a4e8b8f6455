#include "trireme/engine/stage/stage_runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "trireme/comm/sum/segment_sum.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using parallel::Phase;
using runtime::Task;

namespace {

std::size_t at(std::ptrdiff_t i) { return static_cast<std::size_t>(i); }

const char* phase_name(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "weight gradients";
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

// A micro-batch has a slot of its virtual stage from F to W; the one that is free longest is taken again.
void StageRuns::give_slots() {
  struct Free {
    std::size_t slot;
    std::ptrdiff_t since;  // the action that gave it back
  };
  std::vector<std::vector<Free>> free(own_.size());
  std::vector<std::size_t> taken(own_.size(), 0);
  std::map<std::pair<std::size_t, int>, ActionState> so_far;  // of own virtual stage and micro-batch
  states_.assign(actions_.size(), {});
  for (Index i = 0; i < actions_.size(); ++i) {
    const parallel::TimetableAction& a = action(i);
    std::size_t own = 0;
    while (own_[own].stage.number != a.virtual_stage) ++own;
    ActionState& state = so_far[{own, a.micro_batch}];
    state.own = own;
    if (a.phase == Phase::kForward) {
      Free mine{taken[state.own], -1};
      if (free[state.own].empty()) {
        ++taken[state.own];
      } else {
        mine = free[state.own].front();
        free[state.own].erase(free[state.own].begin());
      }
      state.slot = mine.slot;
      state.room_from = mine.since;
      state.forward = i;
    }
    if (a.phase == Phase::kBackward) state.backward = i;
    states_[i] = state;
    if (a.phase == Phase::kWeights) free[state.own].push_back({state.slot, static_cast<std::ptrdiff_t>(i)});
  }
  for (std::size_t s = 0; s < own_.size(); ++s) own_[s].slots.resize(taken[s]);
}

Status StageRuns::make_gradients() {
  gradients_.resize(o_.sums->size());
  for (const prepare::StageSegment& s : stages().segments)
    for (const std::size_t b : s.buckets) {
      const comm::GradientSum& sum = *(*o_.sums)[b];
      if (!gradients_[b].is_null() || dynamic_cast<const comm::SegmentSum*>(&sum) != nullptr) continue;
      Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
      TR_ASSIGN_OR_RETURN(gradients_[b], allocate_zeros(device, sum.memory(0).type()));
    }
  return {};
}

Status StageRuns::make_slots() {
  StageSlotOptions options{o_.prepared, o_.weights, o_.sums, &gradients_, scratch_, o_.host_ops};
  for (Own& own : own_)
    for (StageSlot& slot : own.slots) {
      TR_ASSIGN_OR_RETURN(slot, make_stage_slot(rt_, options, own.stage));
    }
  return {};
}

Status StageRuns::take_shards(collective::LeafRun run) {
  num_micro_batches_ = static_cast<std::size_t>(run.count);
  parallel::TimetableSpec spec = stages().timetable;
  spec.micro_batches = run.count;
  TR_ASSIGN_OR_RETURN(const parallel::TimetableRow* row, parallel::find_timetable_row(spec.kind));
  splits_weights_ = row->splits_weights;
  TR_ASSIGN_OR_RETURN(actions_, build_timetable(spec, stages().stage));
  std::erase_if(actions_, [](const auto& a) { return a.phase == Phase::kUpdate; });
  TR_RETURN_IF_ERROR(make_virtual_stages());
  TR_RETURN_IF_ERROR(make_gradients());
  give_slots();
  return make_slots();
}

void StageRuns::begin(std::int64_t step) {
  step_ = step;
  leaving_.assign(actions_.size(), 0);
  done_.assign(actions_.size(), false);
  for (ActionState& state : states_) state.coming = 0;
  for (std::size_t place = 0; place < num_micro_batches_ && !rt_.is_phantom(); ++place)
    std::fill_n(o_.vote->metrics(place).data<float>(), 2, 0.0F);  // who has the loss writes it
  next_ = asked_forward_ = asked_back_ = 0;
  failure_ = {};
  broken_ = -1;
  waited_ = 0;
}

// Whoever had the slot has added its gradients, and what it sends has left.
bool StageRuns::has_room(Index i) const {
  const std::ptrdiff_t from = states_[i].room_from;
  if (from < 0) return true;
  const ActionState& last = states_[at(from)];
  return done_[at(from)] && leaving_[last.forward] == 0 && leaving_[last.backward] == 0 &&
         leaving_[at(from)] == 0;
}

// In the order of the timetable, forward and back each for itself.
void StageRuns::ask() {
  if (o_.line == nullptr || !failure_.ok()) return;
  for (; asked_forward_ < actions_.size(); ++asked_forward_) {
    const Index i = asked_forward_;
    if (action(i).phase != Phase::kForward) continue;
    if (!has_room(i)) break;
    for (const SlotValue& value : slot_of(i).received) {
      ++states_[i].coming;
      rt_.spawn(receive(i, value, false));
    }
  }
  for (; asked_back_ < actions_.size(); ++asked_back_) {
    const Index i = asked_back_;
    if (action(i).phase != Phase::kBackward) continue;
    if (!has_room(states_[i].forward)) break;
    for (const SlotValue& value : slot_of(i).received_back) {
      ++states_[i].coming;
      rt_.spawn(receive(i, value, true));
    }
  }
}

// Both neighbors along the chain know the virtual stage that sends.
comm::Call StageRuns::message(Index i, const SlotValue& value, bool back, bool sends) const {
  const std::int32_t own = action(i).virtual_stage, from = sends ? own : back ? own + 1 : own - 1;
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step_);
  call.iteration = static_cast<std::uint16_t>(action(i).micro_batch);
  // A gradient is sent by the stage behind the end that it passes.
  const std::int32_t end = back ? from - 1 : from;
  call.slot = static_cast<std::uint16_t>(stages().train_slots[value.number][static_cast<std::size_t>(end)] +
                                         (back ? 1 : 0));
  call.label = fmt::format("{}, micro-batch {}, stage {}", back ? "gradients" : "activations",
                           action(i).micro_batch, own);
  return call;
}

Task<void> StageRuns::receive(Index i, SlotValue value, bool back) {
  ++under_way_;
  const std::int32_t from = action(i).virtual_stage + (back ? 1 : -1);
  const Status status =
      co_await o_.line->recv(message(i, value, back, false), stages().timetable.stage_of(from), value.memory);
  --under_way_;
  --states_[i].coming;
  if (!status.ok() && failure_.ok()) failure_ = status;
  changed();
}

Task<void> StageRuns::send(Index i, SlotValue value, bool back) {
  ++under_way_;
  const std::int32_t to = action(i).virtual_stage + (back ? -1 : 1);
  const Status status =
      co_await o_.line->send(message(i, value, back, true), stages().timetable.stage_of(to), value.memory);
  --under_way_;
  --leaving_[i];
  if (!status.ok() && failure_.ok()) failure_ = status;
  ask();
  changed();
}

void StageRuns::spawn_sends(Index i) {
  if (o_.line == nullptr) return;
  const bool back = action(i).phase != Phase::kForward;
  const StageSlot& slot = slot_of(i);
  for (const SlotValue& value : back ? slot.sent_back : slot.sent) {
    ++leaving_[i];
    rt_.spawn(send(i, value, back));
  }
}

void StageRuns::changed() {
  if (change_ != nullptr) change_->set(true);
}

Task<void> StageRuns::wait_for_change() {
  change_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await change_->wait_until(kForever);  // messages end with the group's verdict at the latest
  change_ = nullptr;
}

Task<Status> StageRuns::wait_until_ready(Index i) {
  const bool forward = action(i).phase == Phase::kForward;
  const TimeNs began = rt_.now();
  while (failure_.ok() && (states_[i].coming > 0 || (forward && !has_room(i)))) co_await wait_for_change();
  if (const TimeNs waited = rt_.now() - began; waited > 0) {
    waited_ += waited;
    o_.trace->note(fmt::format("wait for {}", action(i).to_text()), "wait", 0, began);
  }
  co_return failure_;
}

// The loss is a number before any gradient of the micro-batch leaves.
Status StageRuns::look_at_loss(Index i, const exec::Execution& execution,
                               const prepare::StageSegment& segment) {
  if (rt_.is_phantom()) return {};
  float* const metrics = o_.vote->metrics(static_cast<std::size_t>(action(i).micro_batch)).data<float>();
  const std::pair<const char*, std::size_t> outputs[] = {{"loss", 0}, {"correct", 1}};
  const bool counts = o_.prepared->tile == 0;  // every tile has them
  for (const auto& [name, place] : outputs) {
    if (!segment.train->graph().find_output(name)) continue;
    TR_ASSIGN_OR_RETURN(const Tensor value, execution.fetch(name));
    const float now = *value.data<float>();
    if (counts) metrics[place] = now;
    if (place == 0 && !o_.skips && !std::isfinite(now)) broken_ = action(i).micro_batch;
  }
  return {};
}

// Statistics of the forward pass, and gradients that backward made by the way, lie in the slot until now.
Status StageRuns::collect(const exec::Execution& execution, const prepare::StageSegment& segment,
                          std::size_t bucket, const Tensor& into) const {
  const plan::Bucket& planned = o_.prepared->plan.buckets[bucket];
  const auto copy = [&](const std::string& output, std::int64_t offset) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor now, execution.fetch(output));
    std::memcpy(into.raw() + offset * 4, now.raw(), now.type().num_bytes());
    return {};
  };
  for (std::size_t s = 0; s < planned.statistics.size(); ++s)
    TR_RETURN_IF_ERROR(copy("stat:" + planned.statistics[s], planned.statistic_offsets[s]));
  for (std::size_t p = 0; p < planned.parameters.size(); ++p)
    if (std::find(segment.early.begin(), segment.early.end(), planned.parameters[p]) != segment.early.end())
      TR_RETURN_IF_ERROR(copy("grad:" + planned.parameters[p], planned.offsets[p]));
  return {};
}

Task<void> StageRuns::keep(std::size_t bucket, std::size_t place) {
  const Tensor from = gradients_[bucket], to = (*o_.sums)[bucket]->memory(place);
  const double bytes = 2 * static_cast<double>(from.type().num_bytes());
  co_await rt_.compute(
      {.flops = 0, .bytes = bytes},
      [&](runtime::ComputeContext&) { std::memcpy(to.raw(), from.raw(), from.type().num_bytes()); }, 1,
      "keep a micro-batch");
}

// Where backward wrote a bucket's gradients.
Tensor StageRuns::made(std::size_t bucket, std::int32_t segment) const {
  auto* const sum = dynamic_cast<comm::SegmentSum*>((*o_.sums)[bucket].get());
  return sum != nullptr ? sum->memory_of(segment) : gradients_[bucket];
}

Task<Status> StageRuns::add_gradients(Index i, std::size_t segment) {
  const prepare::StageSegment& own = *own_[states_[i].own].stage.segments[segment];
  for (const std::size_t b : own.buckets) {
    if (!rt_.is_phantom())
      TR_CO_RETURN_IF_ERROR(collect(*slot_of(i).executions[segment], own, b, made(b, own.index)));
    comm::GradientSum& sum = *(*o_.sums)[b];
    if (auto* const of_segments = dynamic_cast<comm::SegmentSum*>(&sum)) {
      co_await of_segments->add(own.index);
    } else {
      Task<void> kept = keep(b, static_cast<std::size_t>(action(i).micro_batch));
      co_await std::move(kept);
    }
  }
  if (action(i).micro_batch + 1 == static_cast<int>(num_micro_batches_)) o_.on_done(own.index);
  co_return Status();
}

Task<Status> StageRuns::run_phase(Index i, const prepare::BatchTensors& batch) {
  const Phase phase = action(i).phase;
  const VirtualStage& stage = own_[states_[i].own].stage;
  const std::size_t count = stage.segments.size();
  const auto number = static_cast<std::uint64_t>(step_) * num_micro_batches_ +
                      static_cast<std::uint64_t>(action(i).micro_batch);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t s = phase == Phase::kForward ? k : count - 1 - k;
    exec::Execution& execution = *slot_of(i).executions[s];
    const prepare::StageSegment& segment = *stage.segments[s];
    if (phase == Phase::kForward)
      TR_CO_RETURN_IF_ERROR(
          prepare::feed_batch(execution, segment.train->graph(), o_.prepared->input, batch));
    exec::RunOptions how;
    how.number = number;
    how.phase = static_cast<int>(phase);
    TR_CO_RETURN_IF_ERROR(co_await execution.run(how));
    if (phase == Phase::kForward) TR_CO_RETURN_IF_ERROR(look_at_loss(i, execution, segment));
    if (phase == Phase::kWeights) TR_CO_RETURN_IF_ERROR(co_await add_gradients(i, s));
  }
  co_return Status();
}

Task<Status> StageRuns::compute(Index i, const prepare::BatchTensors& batch) {
  TR_CO_RETURN_IF_ERROR(co_await wait_until_ready(i));
  const TimeNs began = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await run_phase(i, batch));
  o_.trace->note(fmt::format("{} {}", parallel::phase_letter(action(i).phase), action(i).micro_batch),
                 phase_name(action(i).phase), action(i).virtual_stage, began);
  if (broken_ >= 0) co_return Status();
  const Phase sends_back = splits_weights_ ? Phase::kBackward : Phase::kWeights;
  if (action(i).phase == Phase::kForward || action(i).phase == sends_back) spawn_sends(i);
  done_[i] = true;
  ask();
  co_return Status();
}

Task<Status> StageRuns::run(std::int64_t step, std::span<const prepare::BatchTensors> batch) {
  begin(step);
  ask();
  for (Index i = 0; i < actions_.size() && broken_ < 0; ++i)
    TR_CO_RETURN_IF_ERROR(co_await compute(i, batch[static_cast<std::size_t>(action(i).micro_batch)]));
  if (broken_ >= 0) co_return Status();
  co_await drained();
  co_return failure_;
}

Task<void> StageRuns::drained() {
  while (under_way_ > 0) co_await wait_for_change();
}

}  // namespace trireme::engine
