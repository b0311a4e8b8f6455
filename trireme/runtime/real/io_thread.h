// One thread for file operations, so that the loop never waits for a disk. Operations run in order of
// arrival.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

class IoThread {
 public:
  explicit IoThread(Loop& loop);
  ~IoThread();  // stop()

  // Lets a running operation end, leaves the rest unstarted and joins. Then Tasks that wait here may be
  // destroyed.
  void stop();
  int num_in_flight() const { return num_in_flight_; }  // on the loop

  // Awaitable on the loop: runs `work` on the I/O thread. A Task destroyed meanwhile takes a queued operation
  // back and waits for a running one, so `work` may refer to the awaiting frame.
  auto run(Callback work);

 private:
  enum class State { kQueued, kRunning, kDone };
  struct Operation {
    Callback work;
    State state = State::kQueued;    // guarded by mutex_
    std::coroutine_handle<> waiter;  // on the loop
  };
  struct Awaiter;

  void submit(std::shared_ptr<Operation> operation);
  void abandon(const std::shared_ptr<Operation>& operation);
  void work();

  Loop& loop_;
  int num_in_flight_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_, finished_;
  std::deque<std::shared_ptr<Operation>> queue_;  // guarded by mutex_
  bool stopping_ = false;                         // guarded by mutex_
  std::thread thread_;
};

struct IoThread::Awaiter {
  Awaiter(IoThread& thread, Callback fn) : io(thread), operation(std::make_shared<Operation>()) {
    operation->work = std::move(fn);
  }
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;
  ~Awaiter() {
    if (operation->waiter) io.abandon(operation);
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    operation->waiter = h;
    io.submit(operation);
  }
  void await_resume() const noexcept {}

  IoThread& io;
  std::shared_ptr<Operation> operation;
};

inline auto IoThread::run(Callback work) { return Awaiter(*this, std::move(work)); }

}  // namespace trireme::runtime::real
