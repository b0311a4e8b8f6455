// Runs a grid of an emulated kernel: blocks one after the other, the threads of a block as fibres that stop
// at barriers. One grid at a time (the caller holds the lock of streams.h).
#pragma once

#include <cstddef>
#include <string>

namespace gpu_emulator {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

struct Kernel {
  void (*call)(void** args) = nullptr;  // what nvrtc.cc puts behind each entry
  bool has_barriers = false;            // false: threads are plain calls
  std::string name;
};

// Ends the process, with a message, where threads wait at barriers that not all of them reach.
void run_grid(const Kernel& kernel, Dim grid, Dim block, void** args);

inline constexpr std::size_t kSharedBytes = std::size_t{227} << 10U;  // of one block, at most

}  // namespace gpu_emulator
