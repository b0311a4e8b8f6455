// Meeting: all live workers wait for each other, by letters through rank 0, and leave with one answer.
//
// For rules whose workers may be lost, where a barrier of the group would fail for everybody: who is gone is
// not waited for. Works on phantom Runtimes, where heads of letters travel and payloads do not. Every wait
// ends with the mailbox's verdict when rank 0 is lost.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "trireme/comm/mailbox.h"
#include "trireme/runtime/runtime.h"

namespace trireme::agree {

class Meeting {
 public:
  // What rank 0 makes of everybody's letters, in order of arrival.
  using Decide = std::function<comm::Letter(std::span<const comm::Letter> letters)>;

  // Worker w is rank w. All workers make one with the same `kind`, which nothing else uses.
  Meeting(runtime::Runtime& rt, comm::Mailbox& mail, std::uint16_t kind, int worker, int num_workers,
          Decide decide = nullptr);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Ends when every live worker has called it; the same answer on all of them.
  runtime::Task<Result<comm::Letter>> meet(comm::Letter mine);
  // Another worker is gone: nobody waits for it.
  void on_lost(int worker);

 private:
  struct Desk;
  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  const std::uint16_t kind_;
  std::unique_ptr<Desk> desk_;  // rank 0
};

}  // namespace trireme::agree
