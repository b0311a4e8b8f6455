// The loop of one real Runtime: posted callbacks, timers, descriptors and pollers, run one at a time on one
// thread.
//
// Threads: post() from any; everything else on the thread that calls run_until(), or before it starts and
// after it ended. While work flows a turn makes no system call except one look at the descriptors every
// kFdInterval.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/base/function.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/real/loop_bell.h"
#include "trireme/runtime/real/timers.h"

namespace trireme::runtime::real {

class Loop {
 public:
  explicit Loop(TimeNs spin_ns);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Turns until done() is true, which is asked between callbacks' turns.
  template <typename Done>
  void run_until(Done&& done) {
    enter();
    while (!done())
      if (!turn()) wait();
    leave();
  }

  void post(Callback fn);
  TimeNs now() const { return monotonic_ns() - start_; }

  Timers& timers() { return timers_; }
  LoopBell& bell() { return *bell_; }

  void add_poller(Poller* poller) { pollers_.push_back(poller); }
  void remove_poller(Poller* poller);

  // Calls handler->on_ready(epoll events) for `fd` until unwatch(); edge-triggered, so a handler that does
  // not read to the end must remember it. After unwatch() the handler is not called again, not even for
  // events already collected.
  class FdHandler {
   public:
    virtual ~FdHandler() = default;
    virtual void on_ready(std::uint32_t events) = 0;
  };
  Status watch(int fd, std::uint32_t events, FdHandler* handler);
  void unwatch(int fd, FdHandler* handler);

  // Destroys posted callbacks and timers without running them: for the end of a Runtime, while everything it
  // captured still exists.
  void discard_callbacks();

 private:
  static constexpr TimeNs kFdInterval = 20 * kMicro;

  void enter();
  void leave();
  bool turn();
  void wait();
  bool run_posts();
  bool run_batch(std::vector<Callback>& batch);
  bool run_pollers();
  bool poll_fds(TimeNs timeout_ns);
  void block();
  bool has_posts() const { return !local_.empty() || shared_waiting_.load(std::memory_order_acquire); }

  const TimeNs spin_ns_;
  const TimeNs start_ = monotonic_ns();
  std::unique_ptr<LoopBell> bell_;
  Fd epoll_;
  Timers timers_;
  std::vector<Poller*> pollers_;  // null: removed during a turn
  bool pollers_removed_ = false;
  bool progress_ = false;    // made while waiting: the next turn counts it
  TimeNs next_fd_look_ = 0;  // monotonic

  std::array<epoll_event, 64> events_{};
  int num_events_ = 0, next_event_ = 0;  // what poll_fds is working through

  std::atomic<std::thread::id> thread_{};  // of the running loop
  std::vector<Callback> local_;            // posted on the loop itself: no lock
  std::vector<Callback> batch_;            // reused
  std::mutex mutex_;
  std::vector<Callback> shared_;  // posted by other threads; guarded by mutex_
  std::atomic<bool> shared_waiting_{false};
};

}  // namespace trireme::runtime::real
