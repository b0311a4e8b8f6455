// Turns: a lock among workers by letters through rank 0. Who asks first gets it first; the turn of a worker
// that is lost passes on.
#pragma once

#include <memory>

#include "trireme/comm/mailbox.h"
#include "trireme/runtime/runtime.h"

namespace trireme::agree {

class Turns {
 public:
  // Uses the letter kinds `kind` and `kind` + 1.
  Turns(runtime::Runtime& rt, comm::Mailbox& mail, std::uint16_t kind, int worker);
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
  const std::uint16_t kind_;
  std::unique_ptr<Desk> desk_;  // rank 0
};

}  // namespace trireme::agree
