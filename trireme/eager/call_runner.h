// CallRunner: the threads on which calls run ahead of an imperative program. A Context starts none of its
// own: it takes those of pool_runner.h, or of whoever else has a pool.
#pragma once

#include <atomic>

#include "trireme/base/function.h"

namespace trireme::eager {

class CallRunner {
 public:
  virtual ~CallRunner() = default;
  // Runs `work` once, soon, on any thread, perhaps inside this call. Called by the program's thread and by
  // work.
  virtual void start(Callback work) = 0;
  // Blocks the program's thread until `done` is true. Whoever sets it notifies it (std::atomic::notify_all).
  virtual void wait(const std::atomic<bool>& done) = 0;
};

}  // namespace trireme::eager
