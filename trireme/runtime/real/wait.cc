#include "trireme/runtime/real/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace trireme::runtime::real {

TimeNs monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<TimeNs>(t.tv_sec) * kSecond + t.tv_nsec;
}

// The kernel compares the word with 1 before it sleeps, so a ring between arming and blocking is not lost.
void FutexBell::block() { syscall(SYS_futex, &armed_, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0); }

void FutexBell::wake() { syscall(SYS_futex, &armed_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace trireme::runtime::real
