// Waiting inside one loop: OneShot (a value that arrives once), CancelToken, when_all.
// All of it is single-threaded: make, wait and set on the same loop. Every wait takes a deadline.
#pragma once

#include <coroutine>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// A value that arrives at most once, with at most one waiter. The waiter resumes from the loop, never inside
// set(). Must outlive its waiter. set() after the first is ignored, so that a late completion after a
// deadline is harmless.
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
    if (waiter_)
      rt_.post([this, alive = alive_] {
        if (*alive) wake();
      });
  }

  // Resumes with true when the value is there, false when `deadline` passed first.
  auto wait_until(TimeNs deadline) {
    struct Awaiter {
      Awaiter(OneShot& one_shot, TimeNs until) : shot(one_shot), deadline(until) {}
      Awaiter(const Awaiter&) = delete;
      Awaiter& operator=(const Awaiter&) = delete;
      ~Awaiter() {  // a frame destroyed while it waits: nobody may resume it
        if (suspended) shot.forget_waiter();
      }
      bool await_ready() const noexcept { return shot.value_.has_value(); }
      void await_suspend(std::coroutine_handle<> h) {
        TR_CHECK(!shot.waiter_, "a OneShot has one waiter");
        shot.waiter_ = h;
        suspended = true;
        if (deadline != kForever)
          shot.timer_ = shot.rt_.call_at(deadline, [s = &shot] {
            s->timer_ = 0;
            s->wake();
          });
      }
      bool await_resume() noexcept {
        suspended = false;
        return shot.value_.has_value();
      }
      OneShot& shot;
      TimeNs deadline;
      bool suspended = false;
    };
    return Awaiter(*this, deadline);
  }

  T& value() { return *value_; }

 private:
  void forget_waiter() {
    waiter_ = nullptr;
    if (timer_ != 0) rt_.cancel_timer(std::exchange(timer_, 0));
  }
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

// Asks work to stop. The source is shared; tokens are cheap copies. Callbacks run once, inside cancel(), in
// order of registration (inside on_cancel(), when the token is cancelled already), and must only note the
// fact or post.
class CancelToken {
 public:
  CancelToken() : state_(std::make_shared<State>()) {}
  bool cancelled() const { return state_->cancelled; }
  const Status& reason() const { return state_->reason; }
  void cancel(Status reason) {
    if (state_->cancelled) return;
    const std::shared_ptr<State> state = state_;  // a callback may drop the last token
    state->cancelled = true;
    state->reason = std::move(reason);
    while (!state->callbacks.empty()) {  // one by one: a callback may forget() others
      Callback fn = std::move(state->callbacks.front().second);
      state->callbacks.pop_front();
      fn();
    }
  }
  std::uint64_t on_cancel(Callback fn) {
    const std::uint64_t id = ++state_->next_id;
    if (state_->cancelled) {
      fn();
    } else {
      state_->callbacks.emplace_back(id, std::move(fn));
    }
    return id;
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

// Starts all tasks in order and resumes when every one has ended; the first failure (by position) wins. They
// belong to the returned Task: destroying it destroys those that have not ended.
Task<Status> when_all(Runtime& rt, std::vector<Task<Status>> tasks);

}  // namespace trireme::runtime
