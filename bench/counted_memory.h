// What the CPU device hands out, counted: its blocks come from the aligned, nothrow operator new. Replaces
// that operator for the whole program, so exactly one of its sources includes this. Alignments above 64 do
// not occur.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t kHeader = 64;  // room for the size before each block; keeps the alignment
std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0};

void* allocate(std::size_t bytes, bool counted) {
  void* block = std::aligned_alloc(kHeader, (bytes + 2 * kHeader - 1) / kHeader * kHeader);
  if (block == nullptr) return nullptr;
  *static_cast<std::size_t*>(block) = counted ? bytes : 0;
  if (!counted) return static_cast<char*>(block) + kHeader;
  const std::int64_t live = live_bytes += static_cast<std::int64_t>(bytes);
  for (std::int64_t peak = peak_bytes; live > peak && !peak_bytes.compare_exchange_weak(peak, live);) {
  }
  return static_cast<char*>(block) + kHeader;
}
}  // namespace

void* operator new(std::size_t bytes, std::align_val_t, const std::nothrow_t&) noexcept {
  return allocate(bytes, true);
}
void* operator new(std::size_t bytes, std::align_val_t) {
  if (void* p = allocate(bytes, false)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p, std::align_val_t) noexcept {
  if (p == nullptr) return;
  void* block = static_cast<char*>(p) - kHeader;
  live_bytes -= static_cast<std::int64_t>(*static_cast<std::size_t*>(block));
  std::free(block);
}
void operator delete(void* p, std::size_t, std::align_val_t a) noexcept { ::operator delete(p, a); }
void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept { ::operator delete(p, a); }
