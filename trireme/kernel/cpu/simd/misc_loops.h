// Loops of single ops. Compiled and chosen like the loops of loops.h, with the same bits on every instruction
// set.
#pragma once

#include <cstdint>

namespace trireme::kernel {

struct MiscLoops {
  // out = x / keep where the uniform number of the element is at least `threshold`, else 0, for elements 64
  // chunk... of a sample (op/random/random.h). out may be x.
  void (*dropout)(std::uint64_t stream_key, std::uint64_t sample, std::uint64_t chunk, const float* x,
                  float threshold, float keep, float* out, std::int64_t n);
  // Whether element `at` is the first maximum of x, by `>` from left to right.
  bool (*is_first_maximum)(const float* x, std::int64_t at, std::int64_t n);
  void (*add_squares)(const float* x, float* sums, std::int64_t n);  // sums += x^2
  // y = x / (k + factor sums)^(3/4)
  void (*response)(const float* x, const float* sums, float k, float factor, float* y, std::int64_t n);
};

inline constexpr std::int64_t kDropoutChunk = 64;  // elements

// The fastest set for the instructions of this processor. Constant over the life of the process.
const MiscLoops& misc_loops();

}  // namespace trireme::kernel
