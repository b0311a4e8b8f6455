// Turns: a lock among workers by letters through rank 0. Who asks first gets it first; the turn of a worker
// that is lost passes on.
#pragma once

#include <memory>

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"
#include "trireme/runtime/runtime.h"

namespace trireme::agree {

// How many turns were taken before this one.
struct TurnAnswer {
  std::int64_t turn = 0;
  static constexpr auto kFields = comm::head_fields(comm::at<16>(&TurnAnswer::turn));
};
struct TakeTurnHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 1;
  static constexpr auto kFields = comm::head_fields();
  using Answer = TurnAnswer;
};
struct PassTurnHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 2;
  static constexpr auto kFields = comm::head_fields();
};

class Turns {
 public:
  Turns(runtime::Runtime& rt, comm::Mailbox& mail, int worker);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits until it is this worker's turn; its number, counted over all workers from 0. Not called again
  // before pass().
  runtime::Task<Result<std::int64_t>> take();
  runtime::Task<Status> pass();
  void on_lost(int worker);

 private:
  struct Desk;
  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  std::unique_ptr<Desk> desk_;  // rank 0
};

}  // namespace trireme::agree
