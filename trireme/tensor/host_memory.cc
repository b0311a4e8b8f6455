#include "trireme/tensor/host_memory.h"

#include <atomic>
#include <cstdlib>

namespace trireme {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and what the widest vector load wants

// The account of the one host that a process runs on.
struct Account {
  std::atomic<std::int64_t> live{0}, peak{0};

  void add(std::size_t bytes) {
    const std::int64_t now = live += static_cast<std::int64_t>(bytes);
    for (std::int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
    }
  }
  void take_off(std::size_t bytes) { live -= static_cast<std::int64_t>(bytes); }
};

Account& account() {
  static Account of_this_process;
  return of_this_process;
}

}  // namespace

HostMemory host_memory() { return {account().live, account().peak}; }

void restart_host_peak() { account().peak = account().live.load(); }

void count_off(std::size_t bytes) { account().take_off(bytes); }
void count_again(std::size_t bytes) { account().add(bytes); }

std::shared_ptr<std::byte> count_along(std::shared_ptr<std::byte> memory, std::size_t bytes) {
  if (memory == nullptr) return memory;
  account().add(bytes);
  std::byte* const at = memory.get();
  return {at, [memory = std::move(memory), bytes](std::byte*) mutable {
            memory.reset();
            account().take_off(bytes);
          }};
}

// Not operator new: a program may have told that to end the process (runtime/real/exhausted.h), and this
// failure is somebody's to handle.
std::shared_ptr<std::byte> take_host_memory(std::size_t bytes) {
  const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = padded < bytes ? nullptr : std::aligned_alloc(kAlignment, padded);
  if (memory == nullptr) return nullptr;
  account().add(bytes);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* p) {
            std::free(p);
            account().take_off(bytes);
          }};
}

}  // namespace trireme
