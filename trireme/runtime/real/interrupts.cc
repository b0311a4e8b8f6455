#include "trireme/runtime/real/interrupts.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace trireme::runtime::real {
namespace {

// The eventfds to ring, -1 where free. A signal handler can reach nothing but such a table of lock-free
// words.
constexpr std::size_t kMaxListeners = 64;
struct Listeners {
  std::array<std::atomic<int>, kMaxListeners> fds;
  std::mutex mutex;  // of installing and removing, not of the handler
  int count = 0;
  bool hears_hangup = false;
  bool lingers = false;            // on_late_signal is installed; old_interrupt and old_terminate are kept
  std::atomic<bool> asked{false};  // to stop, by any signal so far
  // The last request: the time in ns, its lowest bit saying whether the parent sent it; 0: none.
  std::atomic<TimeNs> last{0};
  struct sigaction old_interrupt {
  }, old_terminate{}, old_hangup{};
  Listeners() {
    for (auto& fd : fds) fd.store(-1);
  }
};
Listeners& listeners() {
  static Listeners table;
  return table;
}

constexpr TimeNs kTogether = 250 * kMilli;  // no finger is that fast
constexpr TimeNs kPassedOn = 5 * kSecond;   // until a busy parent has passed on what it heard

// System calls and lock-free words only: it runs in signal handlers.
bool is_new_request(const siginfo_t& info) {
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  const bool by_parent = info.si_code <= 0 && info.si_pid == getppid();
  const TimeNs now = (clock.tv_sec * kSecond + clock.tv_nsec) / 2 * 2 + (by_parent ? 1 : 0);
  TimeNs last = listeners().last.load();
  do {
    const bool same_sender = (last & 1) == (now & 1);
    if (last != 0 && now - last < (same_sender ? kTogether : kPassedOn)) return false;
  } while (!listeners().last.compare_exchange_weak(last, now));
  return true;
}

void on_signal(int number, siginfo_t* info, void*) {
  // The shell and the system both tell of a terminal that closes; after another signal that is no news
  // either.
  if (listeners().asked.exchange(true) && number == SIGHUP) return;
  if (!is_new_request(*info)) return;
  const int saved_errno = errno;
  const std::uint64_t one = 1;
  for (auto& slot : listeners().fds)
    if (const int fd = slot.load(); fd >= 0) {
      [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
    }
  errno = saved_errno;
}

// Somebody has asked and nobody listens any more: another request does what it did before we listened.
void on_late_signal(int number, siginfo_t* info, void*) {
  if (!is_new_request(*info)) return;
  const Listeners& table = listeners();
  sigaction(number, number == SIGINT ? &table.old_interrupt : &table.old_terminate, nullptr);
  raise(number);
}

struct sigaction action_of(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  return action;
}

// nohup and its like have asked that nothing happens.
bool is_ignored(int number) {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

class RealInterrupts final : public Interrupts, Loop::FdHandler {
 public:
  RealInterrupts(Loop& loop, Callback fn)
      : loop_(loop),
        fn_(std::make_shared<Callback>(std::move(fn))),
        event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const Status watched = loop_.watch(event_.get(), EPOLLIN, this);
    TR_CHECK(watched.ok(), "{}", watched.to_string());
    Listeners& table = listeners();
    const std::lock_guard lock(table.mutex);
    while (slot_ < kMaxListeners && table.fds[slot_].load() >= 0) ++slot_;
    TR_CHECK(slot_ < kMaxListeners, "more than {} Runtimes of one process listen for interrupts",
             kMaxListeners);
    table.fds[slot_].store(event_.get());
    if (table.count++ > 0) return;
    table.last.store(0);
    const struct sigaction action = action_of(on_signal);
    sigaction(SIGINT, &action, table.lingers ? nullptr : &table.old_interrupt);
    sigaction(SIGTERM, &action, table.lingers ? nullptr : &table.old_terminate);
    table.lingers = false;
    table.hears_hangup = !is_ignored(SIGHUP);
    if (table.hears_hangup) sigaction(SIGHUP, &action, &table.old_hangup);
  }

  ~RealInterrupts() override {
    loop_.unwatch(event_.get(), this);
    Listeners& table = listeners();
    const std::lock_guard lock(table.mutex);
    table.fds[slot_].store(-1);
    if (--table.count > 0) return;
    table.lingers = table.last.load() != 0;
    const struct sigaction late = action_of(on_late_signal);
    sigaction(SIGINT, table.lingers ? &late : &table.old_interrupt, nullptr);
    sigaction(SIGTERM, table.lingers ? &late : &table.old_terminate, nullptr);
    if (!table.hears_hangup) return;
    // A hangup must not end what is being saved.
    if (table.asked.load()) table.old_hangup.sa_handler = SIG_IGN;
    sigaction(SIGHUP, &table.old_hangup, nullptr);
  }

 private:
  void on_ready(std::uint32_t) override {
    std::uint64_t count = 0;
    if (::read(event_.get(), &count, sizeof count) != sizeof count) return;
    const std::shared_ptr<Callback> fn = fn_;  // it may replace itself
    for (; count > 0; --count) (*fn)();
  }

  Loop& loop_;
  const std::shared_ptr<Callback> fn_;
  Fd event_;
  std::size_t slot_ = 0;
};

}  // namespace

std::unique_ptr<Interrupts> make_interrupts(Loop& loop, Callback fn) {
  return std::make_unique<RealInterrupts>(loop, std::move(fn));
}

}  // namespace trireme::runtime::real
