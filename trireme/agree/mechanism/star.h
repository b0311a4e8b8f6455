// Star: how the live workers of a rule without servers get one model when they meet.
//
// Worker 0, which is never lost, asks the others one after the other for what they contribute, adds in worker
// order, and gives everybody the result: same bits everywhere, one vector of extra memory, 2 (W - 1) vectors
// through worker 0's link. A worker that is lost on the way is left out. Every live worker calls the same
// function equally often.
#pragma once

#include "trireme/agree/mechanism/peer_letters.h"

namespace trireme::agree {

class Star {
 public:
  // Has handlers in the mailbox as long as it lives.
  explicit Star(const RuleContext& context);
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;
  // `into` := the sum of all contributions over the sum of all weights. The contribution stays.
  runtime::Task<Status> mean(std::vector<Tensor> contribution, double weight, std::vector<Tensor> into);
  // `into` of worker 0 goes to everybody else's.
  runtime::Task<Status> share(std::vector<Tensor> into);

 private:
  runtime::Task<Status> meet(std::vector<Tensor> contribution, double weight, std::vector<Tensor> into);
  runtime::Task<Status> lead();
  runtime::Task<Status> gather(std::size_t bucket, Tensor part);
  runtime::Task<Status> hear_from(int peer);
  runtime::Task<Status> give_result(int peer);
  void answer_gathers();
  void answer_ends();
  Result<net::View> place_result(const comm::Letter<ResultHead>& letter) const;

  runtime::Runtime* rt_;
  comm::Mailbox* mail_;
  int worker_, num_workers_;
  VectorPool pool_;
  std::int64_t round_ = 0;  // meetings begun here
  std::int64_t ended_ = 0;  // meetings that worker 0 has ended
  // The meeting under way:
  std::vector<Tensor> contribution_, into_;
  double weight_ = 1;
  std::vector<comm::Letter<GatherHead>> gathers_;                   // asked before this worker came
  std::vector<std::pair<int, comm::Letter<MeetingEndHead>>> ends_;  // asked of worker 0
  BackgroundTasks answers_;
};

}  // namespace trireme::agree
