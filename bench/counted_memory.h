// What the CPU device hands out, counted: replaces where it takes its memory (tensor/device.cc) for the whole
// program, so exactly one of its sources includes this.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {
constexpr std::size_t kHeader = 64;  // room for the size before each block; keeps the alignment
std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0};
}  // namespace

namespace trireme {
void* allocate_host_memory(std::size_t bytes);
void free_host_memory(void* memory);

void* allocate_host_memory(std::size_t bytes) {
  void* block = std::aligned_alloc(kHeader, (bytes + 2 * kHeader - 1) / kHeader * kHeader);
  if (block == nullptr) return nullptr;
  *static_cast<std::size_t*>(block) = bytes;
  const std::int64_t live = live_bytes += static_cast<std::int64_t>(bytes);
  for (std::int64_t peak = peak_bytes; live > peak && !peak_bytes.compare_exchange_weak(peak, live);) {
  }
  return static_cast<char*>(block) + kHeader;
}
void free_host_memory(void* memory) {
  if (memory == nullptr) return;
  void* block = static_cast<char*>(memory) - kHeader;
  live_bytes -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
  std::free(block);
}
}  // namespace trireme
