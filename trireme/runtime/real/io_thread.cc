#include "trireme/runtime/real/io_thread.h"

#include <algorithm>

#include "trireme/runtime/real/start_thread.h"

namespace trireme::runtime::real {

IoThread::IoThread(Loop& loop) : loop_(loop) {
  thread_ = start_quiet_thread([this] { work(); });
}

IoThread::~IoThread() { stop(); }

void IoThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void IoThread::submit(std::shared_ptr<Operation> operation) {
  ++num_in_flight_;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  arrived_.notify_one();
}

void IoThread::abandon(const std::shared_ptr<Operation>& operation) {
  --num_in_flight_;
  operation->waiter = nullptr;
  std::unique_lock lock(mutex_);
  std::erase(queue_, operation);
  finished_.wait(lock, [&] { return operation->state != State::kRunning; });
}

void IoThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    auto operation = std::move(queue_.front());
    queue_.pop_front();
    operation->state = State::kRunning;
    lock.unlock();
    operation->work();
    lock.lock();
    operation->state = State::kDone;
    finished_.notify_all();
    lock.unlock();
    loop_.post([this, operation = std::move(operation)] {
      if (!operation->waiter) return;
      --num_in_flight_;
      std::exchange(operation->waiter, nullptr).resume();
    });
    lock.lock();
  }
}

}  // namespace trireme::runtime::real
