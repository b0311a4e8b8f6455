// Copies between a caller's memory and a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace trireme::comm {

// memcpy may choose `rep movsb`, which on some processors is several times slower when source and destination
// have the same place in their pages (glibc bug 30994), as blocks and windows often do.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_storeu_si128(out, a);
    _mm_storeu_si128(out + 1, b);
    _mm_storeu_si128(out + 2, c);
    _mm_storeu_si128(out + 3, d);
  }
#endif
  std::memcpy(to, from, bytes);
}

// The same past the caches: for memory that a core far away has just read and will read next. Ordinary stores
// would fetch every line from there, and its owner would fetch it back. Done when it returns, for a release
// store that follows.
inline void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(bytes, misaligned == 0 ? 0 : kLine - misaligned);
  copy_bytes(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
  }
  _mm_sfence();
#endif
  copy_bytes(to, from, bytes);
}

}  // namespace trireme::comm
