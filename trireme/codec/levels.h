// Values as small whole numbers of a scale, drawn so that they are right on average; for qsgd and terngrad.
#pragma once

#include <array>

#include "trireme/codec/codec.h"

namespace trireme::codec {

inline constexpr std::size_t kLevelBucket = 512;

// Levels 0 .. 2 * steps; 2 * steps < 2^bits. bits is 2, 4 or 8.
struct LevelFormat {
  int bits = 4;
  std::int32_t steps() const { return (1 << (bits - 1)) - 1; }
  std::size_t bytes_of(std::size_t count) const { return (count * static_cast<std::size_t>(bits) + 7) / 8; }
  // Encodes at most kLevelBucket values at this scale; takes what the decoder gets from `r` where it is not
  // null. Gives the bytes written.
  std::size_t write(const float* values, float* r, std::size_t n, float scale, std::uint64_t key,
                    std::uint64_t first, std::byte* out) const;
  // out += decoded; false: a level that there is not.
  bool add(const std::byte* in, std::size_t n, float scale, float* out) const;
};

}  // namespace trireme::codec
