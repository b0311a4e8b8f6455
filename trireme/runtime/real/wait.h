// The wait policy, one primitive for loops, pool workers and shared-memory waiters: spin a little, then arm
// and block.
//
// A waiter owns an *armed* word, which may lie in memory shared between processes. The protocol that loses no
// wake-up:
//
//   waiter:  armed = 1; full fence; look for work once more; block only if there is none
//   ringer:  publish the work;  full fence;  if armed: armed = 0 and signal
//
// The two full fences order (store armed, load work) against (store work, load armed), so at least one side
// sees the other. A ringer that finds the waiter awake pays a fence and a load, no system call.
#pragma once

#include <atomic>
#include <cstdint>

#include "trireme/base/units.h"

namespace trireme::runtime::real {

using ArmedWord = std::atomic<std::uint32_t>;
static_assert(ArmedWord::is_always_lock_free, "the word is shared between processes");

// CLOCK_MONOTONIC. The only clock of the folder; a Runtime's now() is this minus its start.
TimeNs monotonic_ns();

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Ringer's side, after the work was published. True: the waiter blocks or is about to, the caller must signal
// it.
inline bool take_armed(ArmedWord& armed) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return armed.load(std::memory_order_relaxed) != 0 && armed.exchange(0, std::memory_order_acq_rel) != 0;
}

// True as soon as ready() is, false after `spin_ns` without. The clock is read every 16 looks: a look may be
// one load.
template <typename Ready>
bool spin_until(TimeNs spin_ns, Ready&& ready) {
  if (ready()) return true;
  if (spin_ns <= 0) return false;
  const TimeNs end = monotonic_ns() + spin_ns;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      cpu_pause();
    }
  } while (monotonic_ns() < end);
  return false;
}

// Waiter's side. Returns when ready() was true or block() came back (it may do so for no reason: callers look
// again).
template <typename Ready, typename Block>
void wait_for(ArmedWord& armed, TimeNs spin_ns, Ready&& ready, Block&& block) {
  if (spin_until(spin_ns, ready)) return;
  armed.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!ready()) block();
  armed.store(0, std::memory_order_relaxed);
}

// A waiter inside this process that blocks on its armed word itself (futex).
class FutexBell {
 public:
  // One thread at a time.
  template <typename Ready>
  void wait(TimeNs spin_ns, Ready&& ready) {
    wait_for(armed_, spin_ns, ready, [this] { block(); });
  }
  // Any thread, after publishing. True when the waiter was blocked (or about to) and is being woken.
  bool ring() {
    if (!take_armed(armed_)) return false;
    wake();
    return true;
  }

 private:
  void block();
  void wake();
  alignas(64) ArmedWord armed_{0};
};

}  // namespace trireme::runtime::real
