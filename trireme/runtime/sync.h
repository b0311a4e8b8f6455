// Waiting inside one loop: OneShot (a value that arrives once), Gate (many waiters), CancelToken, when_all.
// All of it is single-threaded: make, wait and set on the same loop. Every wait takes a deadline.
#pragma once

#include <coroutine>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// A value that arrives at most once, with at most one waiter. The waiter resumes from the loop, never inside set().
// Must outlive its waiter. set() after the first is ignored, so that a late completion after a deadline is harmless.
template <typename T>
class OneShot {
 public:
  explicit OneShot(Runtime& rt) : rt_(rt), alive_(std::make_shared<bool>(true)) {}
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;
  ~OneShot() {
    *alive_ = false;
    if (timer_ != 0) rt_.cancel_timer(timer_);
  }

  bool is_set() const { return value_.has_value(); }
  void set(T value) {
    if (value_) return;
    value_.emplace(std::move(value));
    if (waiter_) rt_.post([this, alive = alive_] {
      if (*alive) wake();
    });
  }

  // Resumes with true when the value is there, false when `deadline` passed first.
  auto wait_until(TimeNs deadline) {
    struct Awaiter {
      OneShot& shot;
      TimeNs deadline;
      bool await_ready() const noexcept { return shot.value_.has_value(); }
      void await_suspend(std::coroutine_handle<> h) {
        TR_CHECK(!shot.waiter_, "a OneShot has one waiter");
        shot.waiter_ = h;
        if (deadline != kForever) shot.timer_ = shot.rt_.call_at(deadline, [s = &shot] {
          s->timer_ = 0;
          s->wake();
        });
      }
      bool await_resume() const noexcept { return shot.value_.has_value(); }
    };
    return Awaiter{*this, deadline};
  }

  T& value() { return *value_; }

 private:
  void wake() {
    if (timer_ != 0) rt_.cancel_timer(std::exchange(timer_, 0));
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

  Runtime& rt_;
  std::shared_ptr<bool> alive_;
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
  TimerId timer_ = 0;
};

// Asks work to stop. The source is shared; tokens are cheap copies. Callbacks run once, inside cancel(), in order of
// registration, and must only note the fact or post.
class CancelToken {
 public:
  CancelToken() : state_(std::make_shared<State>()) {}
  bool cancelled() const { return state_->cancelled; }
  const Status& reason() const { return state_->reason; }
  void cancel(Status reason) {
    if (state_->cancelled) return;
    state_->cancelled = true;
    state_->reason = std::move(reason);
    auto callbacks = std::move(state_->callbacks);
    for (auto& [id, fn] : callbacks) fn();
  }
  std::uint64_t on_cancel(Callback fn) {
    state_->callbacks.emplace_back(++state_->next_id, std::move(fn));
    return state_->next_id;
  }
  void forget(std::uint64_t id) {
    state_->callbacks.remove_if([id](const auto& entry) { return entry.first == id; });
  }

 private:
  struct State {
    bool cancelled = false;
    Status reason;
    std::uint64_t next_id = 0;
    std::list<std::pair<std::uint64_t, Callback>> callbacks;
  };
  std::shared_ptr<State> state_;
};

// Runs all tasks at the same time on the loop and resumes when every one has ended; the first failure (by position) wins.
Task<Status> when_all(Runtime& rt, std::vector<Task<Status>> tasks);

}  // namespace trireme::runtime
