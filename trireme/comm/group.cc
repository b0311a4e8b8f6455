// The Group: admits calls, runs their programs, and ends everything with one verdict.
//
// A call becomes a run: a slot in runs_ whose number is in the cookies of its messages. A message that fails
// stops its run and is reported; nothing is returned before the membership's verdict, so that every rank
// returns the same error. The verdict poisons the transport; a run ends when the last of its messages and
// computations has come back.
#include "trireme/comm/group.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "trireme/comm/admission.h"
#include "trireme/comm/call_book.h"
#include "trireme/comm/calls.h"
#include "trireme/comm/direct_calls.h"
#include "trireme/comm/program_run.h"
#include "trireme/comm/subgroup.h"
#include "trireme/comm/transport_mailbox.h"
#include "trireme/runtime/sync.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {
namespace {

using collective::Kind;

// A wrong call on purpose: another collective.
Kind wrong_kind(Kind kind) { return kind == Kind::kAllreduce ? Kind::kBroadcast : Kind::kAllreduce; }

class TransportGroup final : public Calls,
                             private net::Completion,
                             private RunListener,
                             private DirectCalls::Owner,
                             private TransportMailbox::Owner {
 public:
  TransportGroup(runtime::Runtime& rt, std::unique_ptr<net::Transport> transport, GroupOptions options)
      : rt_(rt),
        options_(std::move(options)),
        transport_(std::move(transport)),
        admission_(options_, transport_->rank(), transport_->world()),
        membership_(net::make_membership(rt, *transport_, membership_options(options_))),
        direct_(DirectCalls::make(rt, *transport_, options_.spin_ns, *this)),
        drained_(rt) {
    book_.join(options_.id);
    membership_->watch_calls(&book_);
    membership_->start([this](const Status& verdict) { fail_all_on_loop(verdict); });
  }

  int rank() const override { return transport_->rank(); }
  int world() const override { return transport_->world(); }

  Result<std::unique_ptr<Group>> subgroup(std::vector<int> ranks, std::uint16_t id) override;
  Result<Tensor> allocate(const TensorType& type) override {
    const auto bytes = static_cast<std::size_t>(type.shape.num_elems()) * dtype_size(type.dtype);
    auto memory = bytes == 0 || !direct_ ? nullptr : transport_->allocate_exchange(bytes);
    if (!memory) return allocate_zeros(rt_.is_phantom() ? phantom_device() : cpu_device(), type);
    std::byte* at = memory.get();
    return Tensor(Buffer::wrap(cpu_device(), at, bytes, std::move(memory)), type);
  }

  runtime::Task<Result<Tensor>> share(Call call, TensorType type) override {
    net::Window* window = transport_->exchange();
    const bool one_process = transport_->name() == "inproc";
    if (rt_.is_phantom()) co_return Tensor::allocate(phantom_device(), type);
    if (window == nullptr && !one_process && world() > 1)
      co_return error(Code::kUnavailable, "[comm] ranks share no memory over '{}'; use shm or inproc",
                      transport_->name());
    const int root = call.root;
    Tensor mine;
    TR_CO_ASSIGN_OR_RETURN(const Tensor where, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
    std::int64_t& word = *where.data<std::int64_t>();
    word = -1;
    if (rank() == root) {
      TR_CO_ASSIGN_OR_RETURN(mine, allocate(type));
      const auto at = reinterpret_cast<std::intptr_t>(mine.raw());
      const auto base = window == nullptr ? 0 : reinterpret_cast<std::intptr_t>(window->peer(root));
      const bool inside =
          window == nullptr || (at >= base && at - base < static_cast<std::intptr_t>(window->bytes()));
      if (inside) word = at - base;
    }
    TR_CO_RETURN_IF_ERROR(co_await broadcast(std::move(call), where));
    if (word < 0)
      co_return error(Code::kExhausted, "[comm] {} bytes do not fit into what the ranks share",
                      type.num_bytes());
    if (rank() == root) co_return mine;
    std::byte* at = window == nullptr ? reinterpret_cast<std::byte*>(word) : window->peer(root) + word;
    co_return Tensor(Buffer::wrap(cpu_device(), at, type.num_bytes(), nullptr), type);
  }

  Mailbox& mailbox() override {
    if (mailbox_) return *mailbox_;
    mailbox_ = std::make_unique<TransportMailbox>(rt_, *transport_, options_.epoch,
                                                  static_cast<TransportMailbox::Owner&>(*this));
    if (const Status& over = verdict_.ok() ? left_ : verdict_; !over.ok()) mailbox_->end_all(over);
    for (const auto& [peer, why] : losses_) mailbox_->lost(peer, why);
    tell_waiting_on_loop();
    return *mailbox_;
  }

  Status set_expendable(std::vector<int> ranks) override;

  runtime::Task<Status> leave() override {
    if (verdict_.ok()) {
      // Without a barrier where ranks may be lost: the goodbyes alone then wait for all that are there.
      TimeNs limit = kForever;
      Status met = left_;
      if (met.ok() && !has_expendable_) {
        met = co_await run(leave_request());
        limit = rt_.now() + 2 * options_.membership.deadline;
      }
      if (met.ok()) met = co_await membership_->leave(limit);
      left_ = met.ok()
                  ? error(Code::kInvalid, "[comm] rank {} had left: expected no call after leave()", rank())
                  : met;
      if (mailbox_) mailbox_->end_all(left_);
      if (verdict_.ok() && membership_->verdict().ok()) co_return met;
    }
    // Bounded: poison completes everything from the loop.
    co_await drained_.wait_until(kForever);
    co_return verdict_;
  }

  void fail(std::string operation, std::string reason) override {
    membership_->report(rank(), Code::kInternal, std::move(operation), std::move(reason));
  }
  const Status& verdict() const override { return verdict_; }
  GroupStats stats() const override {
    return {num_operations_, transport_->bytes_sent() + (direct_ ? direct_->bytes_laid() : 0)};
  }

  // Also the way of sub-groups.
  runtime::Task<Status> run(Request r) override;

 private:
  struct RunSlot {
    std::unique_ptr<ProgramRun> run;
    runtime::OneShot<Status>* done = nullptr;  // in the frame of the waiting call; null: nobody waits
    std::uint64_t serial = 0;                  // of the call it serves
    bool active = false;
    net::CallId call;
    Status failure;  // a rank of its group was lost
  };
  // Forgets the waiter when its frame goes, whatever the reason. A run that ended has freed its slot before
  // its waiter resumes: the slot may serve another call by then, whose waiter stays.
  struct Waiter {
    RunSlot& slot;
    runtime::OneShot<Status>* mine;
    Waiter(RunSlot& s, runtime::OneShot<Status>* done) : slot(s), mine(done) { slot.done = done; }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter() {
      if (slot.done == mine) slot.done = nullptr;
    }
  };

  static net::MembershipOptions membership_options(const GroupOptions& options) {
    net::MembershipOptions m = options.membership;
    m.epoch = options.epoch;
    return m;
  }

  // A direct call that does not end at once is in the book as long as its frame waits.
  struct DirectEntry {
    CallBook& book;
    const net::CallId id;
    ~DirectEntry() { book.ended(id); }
  };
  void write_down_direct(const Request& r, Kind told, const net::Fingerprint& fingerprint,
                         const net::CallId& id) {
    const CallShape shape{.kind = told,
                          .dtype = r.dtype,
                          .count = r.count,
                          .reduction = r.call.reduction,
                          .algorithm = "direct",
                          .parts = hash_parts({}, {}, r.call.leaf_runs)};
    book_.started(id, fingerprint, shape, operation_of(told, r.call));
    membership_->note_call(id);
    if (std::exchange(direct_failed_, false)) membership_->compare_call(id);
  }

  RunSlot& take_slot() {
    if (free_slots_.empty()) {
      const auto number = static_cast<std::uint32_t>(runs_.size());
      RunSlot& slot = runs_.emplace_back();
      slot.run = std::make_unique<ProgramRun>(rt_, *transport_, number, static_cast<net::Completion&>(*this),
                                              static_cast<RunListener&>(*this));
      return slot;
    }
    RunSlot& slot = runs_[free_slots_.back()];
    free_slots_.pop_back();
    return slot;
  }
  void free_slot(RunSlot& slot) {
    slot.run->release();
    free_slots_.push_back(slot.run->number());
  }

  void on_complete(std::uint64_t cookie, const Status& status) override {
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

  void on_piece(std::uint64_t cookie, std::uint64_t bytes) override {
    membership_->note_progress();
    runs_[cookie >> 32].run->arrived(static_cast<std::uint32_t>(cookie), bytes);
  }

  void report_on_loop(const RunSlot& slot, std::uint32_t step, const Status& status) {
    const ProgramRun& run = *slot.run;
    const std::string& reason = status.context().reason;
    if (status.code() == Code::kMismatch) membership_->compare_call(slot.call);
    membership_->report(run.peer_of(run.step(step)), status.code(), run.operation(),
                        reason.empty() ? status.message() : reason);
  }

  void on_run_computed(std::uint32_t number, std::uint32_t step) override {
    RunSlot& slot = runs_[number];
    membership_->note_progress();
    slot.run->computed(step);
    settle_on_loop(slot);
  }

  // After anything happened to a run: is it over, and whom does this rank wait for now?
  void settle_on_loop(RunSlot& slot) {
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
    if (slot.run->number() == active_.front()) tell_waiting_on_loop();
  }

  // Virtual time: the cost of the sums that were done at once. True: under way, the run ends when it is paid.
  bool charge_on_loop(RunSlot& slot) {
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

  void end_run_on_loop(RunSlot& slot, const Status& status) {
    slot.active = false;
    active_.erase(std::find(active_.begin(), active_.end(), slot.run->number()));
    if (slot.done != nullptr) slot.done->set(status);
    book_.ended(slot.call);
    free_slot(slot);
    membership_->note_progress();
    if (verdict_.ok()) tell_waiting_on_loop();
  }

  // Of the oldest call, else of the oldest question. Cheap: the membership is told only when the peer or the
  // call changed.
  void tell_waiting_on_loop() {
    RunSlot* slot = active_.empty() ? nullptr : &runs_[active_.front()];
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

  void on_mail_progress() override { membership_->note_progress(); }
  void on_mail_waiting() override {
    if (verdict_.ok()) tell_waiting_on_loop();
  }
  void on_mail_failed(int peer, Code code, std::string operation, std::string reason) override {
    membership_->report(peer, code, std::move(operation), std::move(reason));
  }

  void on_direct_progress() override {
    membership_->note_progress();
    if (verdict_.ok()) tell_waiting_on_loop();
  }
  void on_direct_ended() override { on_direct_progress(); }
  void on_direct_failed(int peer, const std::string& operation, const Status& status) override {
    if (!verdict_.ok()) return;
    if (const auto call = book_.find_under_way(operation))
      membership_->compare_call(*call);
    else
      direct_failed_ = true;  // it begins: compared when it is written down
    membership_->report(peer, status.code(), operation, status.context().reason);
  }

  // Calls of groups that it was in fail; everything else goes on.
  void lost_on_loop(int peer, const Status& why) {
    if (!verdict_.ok() || !losses_.emplace(peer, why).second) return;
    rt_.log(why.message());
    transport_->forget_peer(peer, why);
    forget_group(options_.id, why);
    if (direct_) direct_->end_all(why);
    for (const auto& members : subgroups_)
      if (std::find(members->ranks.begin(), members->ranks.end(), peer) != members->ranks.end())
        forget_group(members->id, why);
    if (mailbox_) mailbox_->lost(peer, why);
    const std::vector<std::uint32_t> active(active_.begin(), active_.end());
    for (const std::uint32_t number : active) settle_on_loop(runs_[number]);
    tell_waiting_on_loop();
  }
  void forget_group(std::uint16_t id, const Status& why) {
    if (!dead_groups_.emplace(id, why).second) return;
    book_.quit(id);
    transport_->forget_group(id, why);
    for (const std::uint32_t number : active_) {
      RunSlot& slot = runs_[number];
      if (slot.call.group != id) continue;
      slot.failure = why;
      slot.run->stop();
    }
  }

  void fail_all_on_loop(const Status& verdict) {
    verdict_ = verdict;
    for (const std::uint32_t number : active_) runs_[number].run->stop();
    if (direct_) direct_->end_all(verdict);
    if (mailbox_) mailbox_->end_all(verdict);
    transport_->poison(verdict, [this] { drained_.set(true); });
    const std::vector<std::uint32_t> active(active_.begin(), active_.end());
    for (const std::uint32_t number : active) settle_on_loop(runs_[number]);
  }

  static constexpr std::uint64_t kMailSerial = std::uint64_t{1} << 63;  // apart from those of calls

  runtime::Runtime& rt_;
  const GroupOptions options_;
  std::unique_ptr<net::Transport> transport_;
  Admission admission_;
  CallBook book_;
  std::unique_ptr<net::Membership> membership_;  // after the transport and the book: goes first
  std::unique_ptr<DirectCalls> direct_;          // null: everything goes by messages
  std::unique_ptr<TransportMailbox> mailbox_;    // null: nobody asked for it
  runtime::OneShot<bool> drained_;
  Status verdict_, left_;
  bool has_expendable_ = false;
  std::map<int, Status> losses_;                 // of expendable ranks
  std::map<std::uint16_t, Status> dead_groups_;  // that a lost rank was in
  std::vector<std::shared_ptr<const Members>> subgroups_;
  std::deque<RunSlot> runs_;  // stable addresses
  std::vector<std::uint32_t> free_slots_;
  std::deque<std::uint32_t> active_;  // in order of their calls
  std::uint64_t num_operations_ = 0;
  std::uint64_t num_started_ = 0;
  int told_peer_ = -1;
  std::uint64_t told_serial_ = 0;
  bool direct_failed_ = false;
};

runtime::Task<Status> TransportGroup::run(Request r) {
  if (!verdict_.ok()) co_return verdict_;
  if (!left_.ok()) co_return left_;  // nobody would end the wait
  Kind told = r.kind;
  if (!r.is_leave) {
    switch (rt_.fault_point("collective", ++num_operations_)) {
      case runtime::FaultAction::kNone:
        break;
      case runtime::FaultAction::kMiscall:
        told = wrong_kind(r.kind);
        break;
      case runtime::FaultAction::kError:
        fail(operation_of(told, r.call), "injected failure");
        co_await drained_.wait_until(kForever);
        co_return verdict_;
    }
  }
  const std::uint16_t id = r.members == nullptr ? options_.id : r.members->id;
  if (const auto dead = dead_groups_.find(id); dead != dead_groups_.end()) co_return dead->second;
  if (direct_ && direct_->takes(r)) {
    Combine combine;
    TR_CO_RETURN_IF_ERROR(Admission::check_direct(r, combine));
    const net::Fingerprint fingerprint = Admission::fingerprint_of(r, told);
    const net::CallId call = book_.count(admission_.identity_of(r));
    const DirectCalls::Started started =
        direct_->start(r, admission_.identity_of(r), fingerprint, combine, ++num_started_);
    if (started.ended) {
      membership_->note_progress();
      co_return *started.ended;
    }
    write_down_direct(r, told, fingerprint, call);
    const DirectEntry entry{book_, call};
    tell_waiting_on_loop();
    co_return co_await direct_->wait(started.number);
  }
  RunRequest request;
  CallShape shape;
  TR_CO_RETURN_IF_ERROR(admission_.prepare(r, request, shape));
  shape.kind = told;
  request.fingerprint.kind = static_cast<std::uint8_t>(told);
  request.operation = operation_of(told, r.call);

  RunSlot& slot = take_slot();
  slot.call = book_.count(request.id);
  slot.failure = ok_status();
  book_.started(slot.call, request.fingerprint, shape, request.operation);
  runtime::OneShot<Status> done(rt_);
  const Waiter waiter(slot, &done);
  if (Status s = slot.run->start(std::move(request)); !s.ok()) {
    book_.ended(slot.call);
    free_slot(slot);
    co_return s;
  }
  membership_->note_call(slot.call);
  slot.active = true;
  slot.serial = ++num_started_;
  active_.push_back(slot.run->number());
  settle_on_loop(slot);
  // Bounded by the membership: a lost, silent or stuck rank ends it.
  co_await done.wait_until(kForever);
  co_return done.value();
}

Status TransportGroup::set_expendable(std::vector<int> ranks) {
  for (const int r : ranks)
    if (r <= 0 || r >= world())
      return error(Code::kInvalid, "[comm] rank {} cannot be expendable: expected some of 1..{}", r,
                   world() - 1);
  if (!transport_->capabilities().survives_loss) {
    rt_.log(fmt::format("[comm] {} does not survive the loss of a rank: all ranks end together",
                        transport_->name()));
    return {};
  }
  has_expendable_ = has_expendable_ || !ranks.empty();
  membership_->set_expendable(ranks, [this](int peer, const Status& why) { lost_on_loop(peer, why); });
  return {};
}

Result<std::unique_ptr<Group>> TransportGroup::subgroup(std::vector<int> ranks, std::uint16_t id) {
  TR_ASSIGN_OR_RETURN(auto members, make_members(std::move(ranks), id, rank(), world(), options_.id));
  book_.join(id);
  subgroups_.push_back(members);
  for (const auto& [peer, why] : losses_)
    if (std::find(members->ranks.begin(), members->ranks.end(), peer) != members->ranks.end())
      forget_group(id, why);
  return make_subgroup(*this, std::move(members));
}

}  // namespace

Result<std::unique_ptr<Group>> make_group(runtime::Runtime& rt, std::unique_ptr<net::Transport> transport,
                                          GroupOptions options) {
  if (transport == nullptr) return error(Code::kInvalid, "[comm] a group needs a transport");
  if (options.id >= kMailGroup)
    return error(Code::kInvalid, "[comm] a group cannot have id {}: expected one below {}", options.id,
                 kMailGroup);
  if (!options.machine_of.empty() && static_cast<int>(options.machine_of.size()) != transport->world())
    return error(Code::kInvalid, "[comm] machine_of has {} entries: expected one per rank ({})",
                 options.machine_of.size(), transport->world());
  return std::unique_ptr<Group>(
      std::make_unique<TransportGroup>(rt, std::move(transport), std::move(options)));
}

}  // namespace trireme::comm
