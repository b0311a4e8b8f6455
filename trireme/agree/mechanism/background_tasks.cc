#include "trireme/agree/mechanism/background_tasks.h"

#include <algorithm>

namespace trireme::agree {

using runtime::Task;

// Registered as long as it lives, so that a waiting frame may be destroyed.
struct BackgroundTasks::Waiter {
  explicit Waiter(BackgroundTasks& of) : ended(of.rt_), owner(of) { owner.waiters_.push_back(this); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter() { std::erase(owner.waiters_, this); }
  runtime::OneShot<bool> ended;
  BackgroundTasks& owner;
};

void BackgroundTasks::start(Task<Status> work) {
  tasks_.remove_if([](const Task<void>& task) { return task.done(); });
  ++under_way_;
  tasks_.push_back(run(std::move(work)));
  tasks_.back().start();
}

Task<void> BackgroundTasks::run(Task<Status> work) {
  Status status = co_await work;
  if (!status.ok() && failure_.ok()) failure_ = std::move(status);
  --under_way_;
  for (Waiter* waiter : waiters_) waiter->ended.set(true);
}

Task<Status> BackgroundTasks::wait_below(std::size_t limit) {
  while (under_way_ >= limit && failure_.ok()) {
    Waiter waiter(*this);
    co_await waiter.ended.wait_until(kForever);
  }
  co_return failure_;
}

}  // namespace trireme::agree
