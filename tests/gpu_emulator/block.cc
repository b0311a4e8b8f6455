#include "tests/gpu_emulator/block.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// What words.h declares for kernels. Set before a thread runs on.
extern "C" {
gpu_emulator::Dim threadIdx, blockIdx, blockDim, gridDim;
alignas(1024) unsigned char emulated_dynamic_shared[gpu_emulator::kSharedBytes];
void emulated_barrier();
void emulated_exchange(unsigned mask, const void* own, std::size_t bytes, unsigned lane, void* got);
unsigned emulated_ballot(unsigned mask, int vote);
unsigned emulated_lane();
}

namespace gpu_emulator {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10U;
constexpr unsigned kWarp = 32, kMostThreads = 1024;

enum class State { ready, at_block, at_warp, done };

struct Thread {
  ucontext_t first;  // used once: later switches are jumps, which make no system call
  jmp_buf at;
  bool started = false;
  State state = State::ready;
  unsigned mask = 0;  // of the lanes that it waits for
  Dim index;
  alignas(16) unsigned char slot[16];  // what other lanes of the warp may read
  int vote = 0;
};

// Fibres are kept from launch to launch.
struct Block {
  std::vector<Thread*> threads;
  unsigned count = 0;
  Thread* current = nullptr;
  unsigned current_id = 0;
  jmp_buf scheduler;
  const Kernel* kernel = nullptr;
  void** args = nullptr;
};

Block& block() {
  static auto* b = new Block;
  return *b;
}

void stop_current() {
  Thread* t = block().current;
  if (_setjmp(t->at) == 0) _longjmp(block().scheduler, 1);
}

void thread_main() {
  for (;;) {
    block().kernel->call(block().args);
    block().current->state = State::done;
    stop_current();
  }
}

void make_threads(unsigned count) {
  Block& b = block();
  while (b.threads.size() < count) {
    auto* t = new Thread;
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
      std::fprintf(stderr, "gpu_emulator: no memory for %u fibres\n", count);
      std::abort();
    }
    getcontext(&t->first);
    t->first.uc_stack.ss_sp = stack;
    t->first.uc_stack.ss_size = kStackBytes;
    t->first.uc_link = nullptr;
    makecontext(&t->first, thread_main, 0);
    b.threads.push_back(t);
  }
}

// Until it stops at a barrier or ends.
void resume(unsigned id) {
  Block& b = block();
  Thread* t = b.threads[id];
  b.current = t;
  b.current_id = id;
  threadIdx = t->index;
  if (_setjmp(b.scheduler) != 0) return;
  if (t->started) _longjmp(t->at, 1);
  t->started = true;
  setcontext(&t->first);
}

// Lanes of a warp go on when all whom they wait for, and who have not ended, wait as well.
bool release_warps() {
  Block& b = block();
  bool any = false;
  for (unsigned w = 0; w < b.count; w += kWarp) {
    unsigned waiting = 0, alive = 0;
    for (unsigned i = w; i < b.count && i < w + kWarp; ++i) {
      if (b.threads[i]->state == State::at_warp) waiting |= 1U << (i - w);
      if (b.threads[i]->state != State::done) alive |= 1U << (i - w);
    }
    for (unsigned i = w; i < b.count && i < w + kWarp; ++i) {
      Thread& t = *b.threads[i];
      if (t.state != State::at_warp || (t.mask & alive & ~waiting) != 0) continue;
      t.state = State::ready;
      any = true;
    }
  }
  return any;
}

bool release_block() {
  Block& b = block();
  bool any = false;
  for (unsigned i = 0; i < b.count; ++i) {
    if (b.threads[i]->state == State::at_warp) return false;
    any = any || b.threads[i]->state == State::at_block;
  }
  for (unsigned i = 0; i < b.count; ++i)
    if (b.threads[i]->state == State::at_block) b.threads[i]->state = State::ready;
  return any;
}

[[noreturn]] void report_deadlock() {
  const Block& b = block();
  unsigned at_block = 0, at_warp = 0;
  for (unsigned i = 0; i < b.count; ++i) {
    at_block += b.threads[i]->state == State::at_block ? 1 : 0;
    at_warp += b.threads[i]->state == State::at_warp ? 1 : 0;
  }
  std::fprintf(stderr,
               "gpu_emulator: block %u,%u,%u of %s hangs: of %u threads %u wait in __syncthreads and %u in a "
               "warp's exchange that not all lanes of its mask reach\n",
               blockIdx.x, blockIdx.y, blockIdx.z, b.kernel->name.c_str(), b.count, at_block, at_warp);
  std::abort();
}

// Odd blocks run their threads backwards: what needs the order of threads is a race.
void run_fibres() {
  Block& b = block();
  for (unsigned i = 0; i < b.count; ++i) {
    Thread& t = *b.threads[i];
    t.state = State::ready;
    t.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  const bool backwards = (blockIdx.x + blockIdx.y + blockIdx.z) % 2 == 1;
  for (;;) {
    bool alive = false;
    for (unsigned i = 0; i < b.count; ++i) {
      const unsigned id = backwards ? b.count - 1 - i : i;
      if (b.threads[id]->state == State::ready) resume(id);
      alive = alive || b.threads[id]->state != State::done;
    }
    if (!alive) return;
    if (!release_warps() && !release_block()) report_deadlock();
  }
}

void run_calls() {
  for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
    for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) block().kernel->call(block().args);
}

void wait_for_warp(unsigned mask) {
  block().current->mask = mask;
  block().current->state = State::at_warp;
  stop_current();
}

Thread& lane_of_warp(unsigned lane) {
  return *block().threads[block().current_id / kWarp * kWarp + lane % kWarp];
}

}  // namespace

void run_grid(const Kernel& kernel, Dim grid, Dim size, void** args) {
  Block& b = block();
  b.kernel = &kernel;
  b.args = args;
  b.count = size.x * size.y * size.z;
  gridDim = grid;
  blockDim = size;
  if (kernel.has_barriers) make_threads(b.count);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        if (kernel.has_barriers) {
          run_fibres();
        } else {
          run_calls();
        }
      }
}

}  // namespace gpu_emulator

using gpu_emulator::block;

void emulated_barrier() {
  block().current->state = gpu_emulator::State::at_block;
  gpu_emulator::stop_current();
}

// The second wait keeps a lane from writing its next value before all have read this one.
void emulated_exchange(unsigned mask, const void* own, std::size_t bytes, unsigned lane, void* got) {
  std::memcpy(block().current->slot, own, bytes);
  gpu_emulator::wait_for_warp(mask);
  std::memcpy(got, gpu_emulator::lane_of_warp(lane).slot, bytes);
  gpu_emulator::wait_for_warp(mask);
}

unsigned emulated_ballot(unsigned mask, int vote) {
  block().current->vote = vote;
  gpu_emulator::wait_for_warp(mask);
  unsigned votes = 0;
  const unsigned first = block().current_id / gpu_emulator::kWarp * gpu_emulator::kWarp;
  for (unsigned i = 0; i < gpu_emulator::kWarp && first + i < block().count; ++i) {
    const gpu_emulator::Thread& t = *block().threads[first + i];
    if ((mask >> i & 1U) != 0 && t.state != gpu_emulator::State::done && t.vote != 0) votes |= 1U << i;
  }
  gpu_emulator::wait_for_warp(mask);
  return votes;
}

unsigned emulated_lane() { return block().current_id % gpu_emulator::kWarp; }
