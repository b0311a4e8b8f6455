// TransportGroup: the Group over a Transport.
//
// A call becomes a run: a slot in runs_ whose number is in the cookies of its messages. A message that fails
// stops its run and is reported; nothing is returned before the membership's verdict, so that every rank
// returns the same error. The verdict poisons the transport; a run ends when the last of its messages and
// computations has come back.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/admission.h"
#include "trireme/comm/call_book.h"
#include "trireme/comm/calls.h"
#include "trireme/comm/direct_calls.h"
#include "trireme/comm/program_run.h"
#include "trireme/comm/transport_mailbox.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

inline net::MembershipOptions membership_options(const GroupOptions& options) {
  net::MembershipOptions m = options.membership;
  m.epoch = options.epoch;
  return m;
}

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
  bool same_host(int rank) const override { return transport_->same_host(rank); }

  Result<std::unique_ptr<Group>> subgroup(std::vector<int> ranks, std::uint16_t id) override;
  Result<Tensor> allocate(const TensorType& type) override;
  Mailbox& mailbox() override;
  Status set_expendable(std::vector<int> ranks) override;
  runtime::Task<Status> leave() override;
  void fail(std::string operation, std::string reason) override {
    membership_->report(rank(), Code::kInternal, std::move(operation), std::move(reason));
  }
  const Status& verdict() const override { return verdict_; }
  GroupStats stats() const override {
    return {num_operations_, transport_->bytes_sent() + (direct_ ? direct_->bytes_laid() : 0)};
  }

  // Also the way of sub-groups.
  runtime::Task<Status> run(Request r) override;
  runtime::Task<Result<Tensor>> share_among(Group& members, int root, Call call, TensorType type) override;

 private:
  struct RunSlot {
    std::unique_ptr<ProgramRun> run;
    runtime::OneShot<Status>* done = nullptr;  // in the frame of the waiting call; null: nobody waits
    std::uint64_t serial = 0;                  // of the call it serves
    bool active = false;
    bool in_book = true;  // false: a message between two ranks
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

  // A direct call that does not end at once is in the book as long as its frame waits.
  struct DirectEntry {
    CallBook& book;
    const net::CallId id;
    ~DirectEntry() { book.ended(id); }
  };
  void write_down(RunSlot& slot, const RunRequest& request, const CallShape& shape, bool in_book);
  void write_down_direct(const Request& r, collective::Kind told, const net::Fingerprint& fingerprint,
                         const net::CallId& id);

  RunSlot& take_slot(const RunRequest& request);
  void free_slot(RunSlot& slot);
  void on_complete(std::uint64_t cookie, const Status& status) override;
  void on_piece(std::uint64_t cookie, std::uint64_t bytes) override;
  void report_on_loop(const RunSlot& slot, std::uint32_t step, const Status& status);
  void on_run_computed(std::uint32_t number, std::uint32_t step) override;
  void settle_on_loop(RunSlot& slot);
  bool charge_on_loop(RunSlot& slot);
  void end_run_on_loop(RunSlot& slot, const Status& status);
  void tell_waiting_on_loop();

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
  void on_direct_failed(int peer, const std::string& operation, const Status& status) override;

  void lost_on_loop(int peer, const Status& why);
  void forget_group(std::uint16_t id, const Status& why);
  void fail_all_on_loop(const Status& verdict);

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

}  // namespace trireme::comm
