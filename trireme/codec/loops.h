// The loops of codecs that must be fast, chosen once for this processor; every choice gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::codec {

struct Loops {
  // Adds r to `n` values where r is not null and leaves the sum in r; a bit per value says that its sign is
  // set. Gives the sums and the count of both signs; sums are made in 16 lanes that are then added as a tree.
  // `n` is a multiple of 16, or the end of a block.
  void (*split_signs)(const float* values, float* r, std::size_t n, std::uint8_t* bits, float sums[2],
                      std::int64_t* num_negative);
  // r[i] -= bit i ? low : high
  void (*subtract_signs)(float* r, std::size_t n, const std::uint8_t* bits, float high, float low);
  // out[i] += bit i ? low : high
  void (*add_signs)(float* out, std::size_t n, const std::uint8_t* bits, float high, float low);
  // r += values; the largest magnitude, 0 of none. Values or r alone where the other one is null.
  float (*accumulate)(const float* values, float* r, std::size_t n);
  // Positions, from `first` on, of magnitudes of at least `limit`, in order; how many. `out` has room for n.
  std::size_t (*find_large)(const float* values, std::size_t n, float limit, std::uint32_t first,
                            std::uint32_t* out);
  void (*to_f16)(const float* from, std::uint16_t* to, std::size_t n);
  void (*to_bf16)(const float* from, std::uint16_t* to, std::size_t n);
  void (*add_f16)(const std::uint16_t* from, float* to, std::size_t n);
  void (*add_bf16)(const std::uint16_t* from, float* to, std::size_t n);
  // Levels 0 .. 2 * steps of (value / scale) * steps + steps, rounded up with the probability of what is
  // behind the point; draws are a function of key and position.
  void (*quantise)(const float* values, std::size_t n, float scale, std::int32_t steps, std::uint64_t key,
                   std::uint64_t first, std::uint8_t* levels);
};
const Loops& loops();
const Loops& baseline_loops();

}  // namespace trireme::codec
