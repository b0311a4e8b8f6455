#include "trireme/runtime/real/loop.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "trireme/runtime/real/exhausted.h"

namespace trireme::runtime::real {

Loop::Loop(TimeNs spin_ns) : spin_ns_(spin_ns), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  const Status made = [&]() -> Status {
    if (!epoll_) return system_error("runtime", "make an event loop", errno);
    TR_ASSIGN_OR_RETURN(bell_, LoopBell::make());
    return watch(bell_->event_fd(), EPOLLIN, nullptr);
  }();
  if (!made.ok()) throw CannotStart(made.message());
}

Loop::~Loop() = default;

void Loop::enter() {
  TR_CHECK(thread_.load() == std::thread::id(), "a loop runs on one thread at a time, and not inside itself");
  thread_.store(std::this_thread::get_id());
}

void Loop::leave() { thread_.store(std::thread::id()); }

void Loop::post(Callback fn) {
  if (thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    local_.push_back(std::move(fn));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    shared_.push_back(std::move(fn));
    shared_waiting_.store(true, std::memory_order_release);
  }
  bell_->ring();
}

// Timers before posts: a deadline that has passed is seen before work that arrived after it.
bool Loop::turn() {
  bool progress = std::exchange(progress_, false);
  if (!timers_.empty() && timers_.run_due(now())) progress = true;
  if (run_posts()) progress = true;
  if (run_pollers()) progress = true;
  if (monotonic_ns() >= next_fd_look_ && poll_fds(0)) progress = true;
  return progress;
}

// What the callbacks post waits for the next turn, so timers and descriptors keep their share.
bool Loop::run_posts() {
  bool ran = false;
  if (!local_.empty()) {
    batch_.swap(local_);
    ran = run_batch(batch_);
  }
  if (shared_waiting_.load(std::memory_order_acquire)) {
    {
      const std::lock_guard lock(mutex_);
      batch_.swap(shared_);
      shared_waiting_.store(false, std::memory_order_relaxed);
    }
    ran |= run_batch(batch_);
  }
  return ran;
}

bool Loop::run_batch(std::vector<Callback>& batch) {
  const bool any = !batch.empty();
  for (Callback& fn : batch) {
    fn();
    fn.reset();  // what it captured goes now, not at the end of the batch
  }
  batch.clear();
  return any;
}

bool Loop::run_pollers() {
  bool progress = false;
  for (std::size_t i = 0; i < pollers_.size(); ++i)  // by index: a poller may add pollers
    if (pollers_[i] != nullptr && pollers_[i]->poll_on_loop()) progress = true;
  if (std::exchange(pollers_removed_, false)) std::erase(pollers_, nullptr);
  return progress;
}

void Loop::remove_poller(Poller* poller) {
  std::replace(pollers_.begin(), pollers_.end(), poller, static_cast<Poller*>(nullptr));
  pollers_removed_ = true;
}

void Loop::wait() {
  wait_for(
      bell_->armed(), spin_ns_,
      [this] {
        progress_ |= run_pollers();
        if (monotonic_ns() >= next_fd_look_) progress_ |= poll_fds(0);
        return progress_ || has_posts() || (!timers_.empty() && timers_.next_due() <= now());
      },
      [this] { block(); });
}

void Loop::block() {
  const TimeNs due = timers_.next_due();
  poll_fds(due == kForever ? kForever : std::max<TimeNs>(due - now(), 0));
}

// The bell's own event has no handler: waking up is all it is for, and edge-triggered it need not be read. It
// counts as progress: a look at the descriptors between the last poll and blocking must not swallow a ring.
bool Loop::poll_fds(TimeNs timeout_ns) {
  timespec timeout{timeout_ns / kSecond, timeout_ns % kSecond};
  int count = epoll_pwait2(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                           timeout_ns == kForever ? nullptr : &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {  // Linux before 5.11: whole milliseconds, rounded up
    const TimeNs ms =
        timeout_ns == kForever ? -1 : std::min<TimeNs>((timeout_ns + kMilli - 1) / kMilli, 1'000'000);
    count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), static_cast<int>(ms));
  }
  next_fd_look_ = monotonic_ns() + kFdInterval;
  bool any = false;
  num_events_ = std::max(count, 0);
  for (next_event_ = 0; next_event_ < num_events_;) {
    const epoll_event event = events_[static_cast<std::size_t>(next_event_++)];
    any = true;
    if (auto* handler = static_cast<FdHandler*>(event.data.ptr)) handler->on_ready(event.events);
  }
  num_events_ = 0;
  return any;
}

Status Loop::watch(int fd, std::uint32_t events, FdHandler* handler) {
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.ptr = handler;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return system_error("runtime", "watch a descriptor", errno);
  return {};
}

void Loop::unwatch(int fd, FdHandler* handler) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  for (int i = next_event_; i < num_events_; ++i)
    if (auto& event = events_[static_cast<std::size_t>(i)]; event.data.ptr == handler)
      event.data.ptr = nullptr;
}

void Loop::discard_callbacks() {
  // A dying callback may post again (a Task frame that ends work): until nothing is left.
  for (;;) {
    std::vector<Callback> dying;
    dying.swap(local_);
    {
      const std::lock_guard lock(mutex_);
      for (Callback& fn : shared_) dying.push_back(std::move(fn));
      shared_.clear();
      shared_waiting_.store(false);
    }
    timers_.take_all(dying);
    if (dying.empty()) return;
  }
}

}  // namespace trireme::runtime::real
