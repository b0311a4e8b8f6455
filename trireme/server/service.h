// Service: the server of one rank at work. Letters come in by its handlers, every slice is served by a Task
// of its own that starts when there is something to do, and answers leave by Tasks. Shared with all of these:
// it lives until the last has ended, and does nothing more once it is closed.
//
// Where answers are read from: with a policy that works in lockstep and nothing to apply, from the live
// values, and the next update waits until they have left. Otherwise from a copy that all answers between two
// updates share, and updates go on.
#pragma once

#include <deque>
#include <set>

#include "trireme/runtime/sync.h"
#include "trireme/server/kept_slice.h"
#include "trireme/server/letters.h"

namespace trireme::server {

class Service : public std::enable_shared_from_this<Service> {
 public:
  Service(runtime::Runtime& rt, comm::Mailbox& mail, ServerOptions options, const ConsistencyRow& row);

  Status make_slices();
  Status make_products(KeptSlice& kept);
  void open();   // letters come from here on
  void close();  // no more

  const ServerStats& stats() const { return stats_; }
  std::vector<std::pair<std::string, Tensor>> state() const;
  runtime::Task<Status> settle();

 private:
  // A worker that finished, until all that it pushed is applied.
  struct Farewell {
    Question question;
    std::vector<std::int64_t> up_to;  // batches, per slice; -1: some of its pushes are held
  };

  // Letters (service.cc).
  template <typename AnyLetter>
  void arrived(int peer, const AnyLetter& letter);
  template <typename AnyLetter>
  Result<net::View> place(int peer, const AnyLetter& letter);
  template <typename AnyLetter>
  Status check(int peer, const AnyLetter& letter) const;
  void on(int peer, const comm::Letter<InitHead>& letter);
  void on(int peer, const comm::Letter<PushHead>& letter);
  void on(int peer, const comm::Letter<PushRowsHead>& letter);
  void on(int peer, const comm::Letter<PullHead>& letter);
  void on(int peer, const comm::Letter<PullRowsHead>& letter);
  void on(int peer, const comm::Letter<TickHead>& letter);
  void on(int peer, const comm::Letter<FinishHead>& letter);
  void on(int peer, const comm::Letter<RejoinHead>& letter);
  void on_lost(int peer);

  // Events of slices.
  Loan take_arrived(int peer);
  void take_push(KeptSlice& slice, Push push, bool counts);
  void take_pull(KeptSlice& slice, Pull pull);
  void release(KeptSlice& slice);
  void wake(KeptSlice& slice);
  void look_at_farewells();
  void fail(const Status& why);

  // Tasks (service_tasks.cc).
  static runtime::Task<void> serve(std::shared_ptr<Service> self, KeptSlice& slice);
  runtime::Task<Status> apply(KeptSlice& slice, Batch batch);
  runtime::Task<Status> set_values(KeptSlice& slice, Loan values);
  runtime::Task<Status> update(KeptSlice& slice, std::span<Push> pushes);
  runtime::Task<Result<Loan>> copy_of(KeptSlice& slice);
  runtime::Task<Status> answer(KeptSlice& slice, Pull pull);
  runtime::Task<Status> answer_pushes(KeptSlice& slice, std::span<const Push> pushes,
                                      std::optional<Question> Push::*asked);
  runtime::Task<Result<Loan>> gather_rows(KeptSlice& slice, const Pull& pull);
  // Coded messages (service_coded.cc).
  runtime::Task<Status> decode(KeptSlice& slice, Push& push);
  runtime::Task<Status> multiply(KeptSlice& slice, Push& push);
  runtime::Task<Status> answer_kept(KeptSlice& slice, Pull pull);
  void send_answer(KeptSlice* slice, const Question& to, ServerAnswer head, Loan memory, net::View view);
  static runtime::Task<void> reply(std::shared_ptr<Service> self, KeptSlice* live, Question to,
                                   ServerAnswer head, Loan memory, net::View view);

  KeptSlice* find(std::uint32_t slice_id);

  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  const ServerOptions options_;
  const ConsistencyRow& row_;
  TensorPool pool_;
  std::vector<FactorSlice> factors_;  // per slice of the layout, or none
  std::vector<std::unique_ptr<KeptSlice>> slices_;
  std::map<std::uint32_t, KeptSlice*> by_id_;
  std::map<int, std::deque<Loan>> arriving_;  // per peer: where its payloads go, in order
  std::vector<Farewell> farewells_;
  std::vector<std::shared_ptr<runtime::OneShot<bool>>> settling_;
  ServerStats stats_;
  Status failure_;
  bool closed_ = false;
};

}  // namespace trireme::server
