// Calls of a group: admitted, run, ended.
#include <algorithm>
#include <utility>

#include "trireme/comm/transport_group.h"

namespace trireme::comm {

namespace {

std::uint64_t serial_of(std::uint64_t number, const Call& call) {
  return number | (call.ahead ? DirectCalls::kAheadSerial : 0);
}

// The number of the oldest call under way; those made ahead count as younger than others.
template <class Runs>
std::uint32_t oldest(const std::deque<std::uint32_t>& active, const Runs& runs) {
  const auto in_its_time = std::find_if(active.begin(), active.end(), [&](std::uint32_t number) {
    return (runs[number].serial & DirectCalls::kAheadSerial) == 0;
  });
  return in_its_time != active.end() ? *in_its_time : active.front();
}

}  // namespace
namespace {

using collective::Kind;

// A wrong call on purpose: another collective.
Kind wrong_kind(Kind kind) { return kind == Kind::kAllreduce ? Kind::kBroadcast : Kind::kAllreduce; }

// The ranks tell each other where they have memory for a lane.
runtime::Task<Status> ask_for_lane(Calls& group, DirectCalls& direct_calls, const Request& r,
                                   DirectCalls::Place& place) {
  struct Answer {  // told also when the frame goes while it waits
    DirectCalls& direct;
    DirectCalls::Place& place;
    const Request& r;
    Tensor offsets = {};
    bool told = false;
    ~Answer() {
      direct.settle(place, r, told ? offsets.values<std::int64_t>() : std::span<const std::int64_t>());
    }
  } answer{direct_calls, place, r};
  const std::int64_t count = r.members == nullptr ? group.world() : static_cast<int>(r.members->ranks.size());
  const auto me = static_cast<std::size_t>(r.members == nullptr ? group.rank() : r.members->rank);
  TR_CO_ASSIGN_OR_RETURN(answer.offsets, Tensor::allocate(cpu_device(), {DType::kI64, {count}}));
  answer.offsets.values<std::int64_t>()[me] = direct_calls.take_memory(place);
  Request ask{.kind = Kind::kAllgather, .call = {}, .result = answer.offsets};
  ask.call.step = r.call.step;
  ask.call.num_shards = r.call.num_shards;
  ask.call.iteration = r.call.iteration;
  ask.call.slot = r.call.slot;
  ask.call.label = r.call.label + " (shared memory)";
  ask.dtype = DType::kI64;
  ask.count = count;
  ask.is_own = true;
  ask.members = r.members;
  TR_CO_RETURN_IF_ERROR(co_await group.run(std::move(ask)));
  answer.told = true;
  co_return Status();
}

// The first call of its kind asks, those behind it wait. They go on one after the other in the order in which
// they came, because a lane needs it.
runtime::Task<Status> find_lane(runtime::Runtime& rt, Calls& group, DirectCalls& direct, const Request& r,
                                DirectCalls::Place& place) {
  if (!std::exchange(place.asked, true)) co_return co_await ask_for_lane(group, direct, r, place);
  struct Turn {
    DirectCalls::Place& place;
    runtime::OneShot<bool> mine;
    Turn(DirectCalls::Place& p, runtime::Runtime& on) : place(p), mine(on) { place.waiting.push_back(&mine); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      std::erase(place.waiting, &mine);
      if (place.known && !place.waiting.empty()) place.waiting.front()->set(true);
    }
  };
  Turn turn(place, rt);
  co_await turn.mine.wait_until(kForever);  // bounded, as the call that asks is
  co_return group.verdict();
}

// A sum of which every rank needs its own part only, by messages: nothing else travels.
void send_parts(Request& r, int world) {
  for (int rank = 0; rank < world; ++rank)
    r.call.counts.push_back(
        chunk_of(r.count, static_cast<std::int64_t>(dtype_size(r.dtype)), rank, world).size());
  r.kind = Kind::kReduceScatter;
}

}  // namespace

runtime::Task<Status> TransportGroup::run(Request r) {
  if (!verdict_.ok()) co_return verdict_;
  if (!left_.ok()) co_return left_;  // nobody would end the wait
  Kind told = r.kind;
  if (!r.is_own) {
    switch (rt_.fault_point("collective", ++num_operations_)) {
      case runtime::FaultAction::kNone:
        break;
      case runtime::FaultAction::kMiscall:
        told = wrong_kind(r.kind);
        break;
      case runtime::FaultAction::kError:
        fail(operation_of(told, r), "injected failure");
        co_await drained_.wait_until(kForever);
        co_return verdict_;
    }
  }
  DirectCalls::Place* place = direct_ && direct_->takes(r) ? &direct_->place_of(r) : nullptr;
  if (place != nullptr && (!place->known || !place->waiting.empty()))
    TR_CO_RETURN_IF_ERROR(co_await find_lane(rt_, *this, *direct_, r, *place));
  const std::uint16_t id = r.members == nullptr ? options_.id : r.members->id;
  if (const auto dead = dead_groups_.find(id); dead != dead_groups_.end()) co_return dead->second;
  if (place != nullptr && place->lane >= 0) {
    Combine combine;
    TR_CO_RETURN_IF_ERROR(Admission::check_direct(r, combine));
    const net::Fingerprint fingerprint = Admission::fingerprint_of(r, told);
    const net::CallId call = book_.count(admission_.identity_of(r));
    if (r.members != nullptr)
      r.members->bytes_sent += static_cast<std::uint64_t>(r.count) * dtype_size(r.dtype);
    const DirectCalls::Started started =
        direct_->start(r, admission_.identity_of(r), fingerprint, combine, serial_of(++num_started_, r.call));
    if (started.ended) {
      membership_->note_progress();
      co_return *started.ended;
    }
    write_down_direct(r, told, fingerprint, call);
    const DirectEntry entry{book_, call};
    tell_waiting_on_loop();
    co_return co_await direct_->wait(started.number);
  }
  if (r.kind == Kind::kAllreduce && r.call.own_chunk && r.call.algorithm == "fixed-tree") {
    send_parts(r, r.members == nullptr ? world() : static_cast<int>(r.members->ranks.size()));
    if (told == Kind::kAllreduce) told = r.kind;
  }
  RunRequest request;
  CallShape shape;
  TR_CO_RETURN_IF_ERROR(admission_.prepare(r, request, shape));
  shape.kind = told;
  if (told != r.kind) request.fingerprint.kind = static_cast<std::uint8_t>(told);
  request.operation = operation_of(told, r);

  if (r.members != nullptr) r.members->bytes_sent += request.program->program.bytes_sent(request.elem_bytes);

  RunSlot& slot = take_slot(request);
  slot.failure = ok_status();
  write_down(slot, request, shape, !r.message || told != r.kind);
  runtime::OneShot<Status> done(rt_);
  const Waiter waiter(slot, &done);
  if (Status s = slot.run->start(std::move(request)); !s.ok()) {
    if (slot.in_book) book_.ended(slot.call);
    free_slot(slot);
    co_return s;
  }
  if (slot.in_book) membership_->note_call(slot.call);
  slot.active = true;
  slot.serial = serial_of(++num_started_, r.call);
  active_.push_back(slot.run->number());
  settle_on_loop(slot);
  // Bounded by the membership: a lost, silent or stuck rank ends it.
  co_await done.wait_until(kForever);
  co_return done.value();
}

// Only the two ranks of a message know of it: it is not in the book, so nobody else is asked how it made it.
void TransportGroup::write_down(RunSlot& slot, const RunRequest& request, const CallShape& shape,
                                bool in_book) {
  slot.in_book = in_book;
  slot.call = {request.id.group, request.id.slot, request.id.step, 1};  // a collective in its place
  if (!in_book) return;
  slot.call = book_.count(request.id);
  book_.started(slot.call, request.fingerprint, shape, request.operation);
}

void TransportGroup::write_down_direct(const Request& r, Kind told, const net::Fingerprint& fingerprint,
                                       const net::CallId& id) {
  const CallShape shape{.kind = told,
                        .dtype = r.dtype,
                        .count = r.count,
                        .reduction = r.call.reduction,
                        .algorithm = "direct",
                        .parts = hash_parts({}, {}, r.call.leaf_runs)};
  book_.started(id, fingerprint, shape, operation_of(told, r));
  membership_->note_call(id);
  if (std::exchange(direct_failed_, false)) membership_->compare_call(id);
}

// Runs keep their scratch: the free one with the least that is enough, or the one with most, which grows.
TransportGroup::RunSlot& TransportGroup::take_slot(const RunRequest& request) {
  if (free_slots_.empty()) {
    const auto number = static_cast<std::uint32_t>(runs_.size());
    RunSlot& slot = runs_.emplace_back();
    slot.run = std::make_unique<ProgramRun>(rt_, *transport_, number, static_cast<net::Completion&>(*this),
                                            static_cast<RunListener&>(*this));
    return slot;
  }
  const std::size_t needed = ProgramRun::scratch_needed(request);
  auto best = free_slots_.end() - 1;
  for (auto it = free_slots_.begin(); it != free_slots_.end(); ++it) {
    const std::size_t has = runs_[*it].run->scratch_bytes(), most = runs_[*best].run->scratch_bytes();
    if (has == most) continue;
    if (most < needed ? has > most : has >= needed && has < most) best = it;
  }
  RunSlot& slot = runs_[*best];
  free_slots_.erase(best);
  return slot;
}

void TransportGroup::free_slot(RunSlot& slot) {
  slot.run->release();
  free_slots_.push_back(slot.run->number());
}

void TransportGroup::on_complete(std::uint64_t cookie, const Status& status) {
  RunSlot& slot = runs_[cookie >> 32];
  const auto step = static_cast<std::uint32_t>(cookie);
  if (status.ok()) {
    membership_->note_progress();
    slot.run->completed(step);
  } else {
    slot.run->stop();
    slot.run->message_failed();
    if (verdict_.ok() && slot.failure.ok()) report_on_loop(slot, step, status);
  }
  settle_on_loop(slot);
}

void TransportGroup::on_piece(std::uint64_t cookie, std::uint64_t bytes) {
  membership_->note_progress();
  runs_[cookie >> 32].run->arrived(static_cast<std::uint32_t>(cookie), bytes);
}

void TransportGroup::report_on_loop(const RunSlot& slot, std::uint32_t step, const Status& status) {
  const ProgramRun& run = *slot.run;
  const std::string& reason = status.context().reason;
  if (status.code() == Code::kMismatch) membership_->compare_call(slot.call);
  membership_->report(run.peer_of(run.step(step)), status.code(), run.operation(),
                      reason.empty() ? status.message() : reason);
}

void TransportGroup::on_run_computed(std::uint32_t number, std::uint32_t step) {
  RunSlot& slot = runs_[number];
  membership_->note_progress();
  slot.run->computed(step);
  settle_on_loop(slot);
}

// After anything happened to a run: is it over, and whom does this rank wait for now?
void TransportGroup::settle_on_loop(RunSlot& slot) {
  if (!slot.active) return;
  if (!verdict_.ok()) {
    if (slot.run->is_idle()) end_run_on_loop(slot, verdict_);
    return;
  }
  if (!slot.failure.ok()) {
    if (slot.run->is_idle()) end_run_on_loop(slot, slot.failure);
    return;
  }
  if (slot.run->is_finished() && !charge_on_loop(slot)) {
    end_run_on_loop(slot, ok_status());
    return;
  }
  if (slot.run->number() == oldest(active_, runs_)) tell_waiting_on_loop();
}

// Virtual time: the cost of the sums that were done at once. True: under way, the run ends when it is paid.
bool TransportGroup::charge_on_loop(RunSlot& slot) {
  const cost::OpCost cost = slot.run->deferred_cost();
  if (!rt_.is_virtual() || cost.bytes == 0) return false;
  slot.run->charge_started();
  runtime::ComputeRequest request;
  request.cost = cost;
  request.label = "reduce";
  request.done = [this, &slot] {
    slot.run->charge_ended();
    settle_on_loop(slot);
  };
  rt_.start_compute(std::move(request));
  return true;
}

void TransportGroup::end_run_on_loop(RunSlot& slot, const Status& status) {
  slot.active = false;
  active_.erase(std::find(active_.begin(), active_.end(), slot.run->number()));
  if (slot.done != nullptr) slot.done->set(status);
  if (slot.in_book) book_.ended(slot.call);
  free_slot(slot);
  membership_->note_progress();
  if (verdict_.ok()) tell_waiting_on_loop();
}

// Tells whom the oldest call waits for, else the oldest question. This is cheap: the membership is told only
// when the peer or the call changed.
void TransportGroup::tell_waiting_on_loop() {
  const RunSlot* slot = active_.empty() ? nullptr : &runs_[oldest(active_, runs_)];
  int peer = slot == nullptr ? -1 : slot->run->waits_for();
  std::uint64_t serial = slot == nullptr ? 0 : slot->serial;
  const std::uint64_t direct = direct_ ? direct_->oldest_serial() : 0;
  const bool is_direct = direct != 0 && (serial == 0 || direct < serial);
  if (is_direct) {
    serial = direct;
    peer = direct_->waits_for();
  }
  // Who waits for letters, or for none in particular, says nothing about whom it waits for.
  const bool patient = serial == 0 && mailbox_ != nullptr;
  if (patient) {
    peer = mailbox_->asks();
    serial = kMailSerial | mailbox_->oldest_question();
  }
  if (peer == told_peer_ && serial == told_serial_) return;
  told_peer_ = peer;
  told_serial_ = serial;
  membership_->set_waiting({peer,
                            patient     ? mailbox_->question_text()
                            : peer < 0  ? std::string()
                            : is_direct ? direct_->operation()
                                        : slot->run->operation(),
                            patient});
}

void TransportGroup::on_direct_failed(int peer, const std::string& operation, const Status& status) {
  if (!verdict_.ok()) return;
  if (const auto call = book_.find_under_way(operation))
    membership_->compare_call(*call);
  else
    direct_failed_ = true;  // it begins: compared when it is written down
  membership_->report(peer, status.code(), operation, status.context().reason);
}

}  // namespace trireme::comm
