// Task<T>: a lazily started coroutine that belongs to one loop.
//
// `co_await task` starts it and resumes the awaiter when it ends. A Task that is destroyed before it was
// started does nothing; destroying a suspended Task destroys its frame and everything in it (awaiters
// unregister in destructors). Tasks never cross loops: start and resume happen on the loop of one Runtime.
// Exceptions do not cross a Task: the project reports failures by Status, an exception that escapes
// terminates (real/exhausted.h).
//
// Name what you pass to co_await: GCC 12 destroys a temporary made by braces (an aggregate, a lambda with
// captures) twice when the frame is destroyed while it waits in that very expression. Captures by reference
// and plain values are safe.
//
// A child that ends without suspending resumes its parent by returning, not by a nested call, so loops over
// ready children use no stack whatever the compiler does with tail calls.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "trireme/base/check.h"

namespace trireme::runtime {

template <typename T = void>
class [[nodiscard]] Task;

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> continuation;
  bool starting = false;  // inside the first resume(): the awaiter looks at done() itself

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename P>
    void await_suspend(std::coroutine_handle<P> h) noexcept {
      PromiseBase& p = h.promise();
      if (!p.starting && p.continuation) p.continuation.resume();  // may destroy h: nothing is touched after
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace internal

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle h) : handle_(h) {}
  Task(Task&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Task& operator=(Task&& o) noexcept {
    if (this != &o) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(o.handle_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  explicit operator bool() const { return static_cast<bool>(handle_); }

  struct Awaiter {
    Handle child;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> parent) {
      auto& p = child.promise();
      p.continuation = parent;
      p.starting = true;
      child.resume();
      if (child.done()) return false;  // ended without suspending: go straight on
      p.starting = false;
      return true;
    }
    T await_resume() { return child.promise().take(); }
  };
  // The Task must outlive the co_await; a temporary does.
  Awaiter operator co_await() && {
    TR_CHECK(handle_, "co_await of an empty Task");
    return Awaiter{handle_};
  }
  Awaiter operator co_await() & {
    TR_CHECK(handle_, "co_await of an empty Task");
    return Awaiter{handle_};
  }

  // For loops only: start at the top level (no parent) and ask whether it ended.
  void start() { handle_.resume(); }
  bool done() const { return handle_.done(); }

 private:
  Handle handle_;
};

namespace internal {
template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}
}  // namespace internal

}  // namespace trireme::runtime
