// The doorbell of a loop: an eventfd that its epoll watches, and an armed word in a memory file, so that
// threads of this process and peers in others ring it without a system call while the loop is awake.
#pragma once

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/fd.h"
#include "trireme/runtime/real/wait.h"

namespace trireme::runtime::real {

class LoopBell final : public Doorbell {
 public:
  // Makes a new bell, or one that rings a bell of another process from what came over a stream.
  static Result<std::unique_ptr<LoopBell>> make();
  static Result<std::unique_ptr<LoopBell>> from_fds(Fd event, Fd page);
  Result<std::unique_ptr<LoopBell>> duplicate() const;

  void ring() override {  // any thread, after publishing the work
    if (take_armed(armed())) signal();
  }

  ArmedWord& armed() const { return *armed_; }
  int event_fd() const { return event_.get(); }
  int page_fd() const { return page_.get(); }

 private:
  LoopBell() = default;
  void signal();

  Fd event_, page_;
  Mapping mapping_;
  ArmedWord* armed_ = nullptr;  // the first word of the page
};

}  // namespace trireme::runtime::real
