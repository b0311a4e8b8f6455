// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
//
// A draw is a pure function of (key, counter), so nothing depends on the number of workers, threads or the
// order of execution: whoever needs the value for a global element index computes it.
#pragma once

#include <array>
#include <cstdint>

namespace trireme {

// 128 random bits for a 64-bit key and a 128-bit counter (counter words: low to high).
std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::array<std::uint32_t, 4> counter);

// Maps 32 random bits to [0, 1) with 24 bits of precision, exact in f32.
inline float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24F; }

// A well-mixed 64-bit key from several parts (seed, purpose, epoch...).
std::uint64_t mix_key(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);

// A sequence of draws for (key, stream): a convenience for code that consumes a varying number of values.
// Not thread-safe; make one per user, it is 48 bytes.
class Philox {
 public:
  explicit Philox(std::uint64_t key, std::uint64_t stream = 0, std::uint64_t offset = 0)
      : key_(key), stream_(stream), block_(offset) {}

  std::uint32_t next_u32();
  std::uint64_t next_u64() { return (static_cast<std::uint64_t>(next_u32()) << 32) | next_u32(); }
  float next_uniform() { return to_uniform(next_u32()); }                             // [0, 1), 24 bits
  double next_double() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }  // [0, 1), 53 bits
  float next_normal();                                                                // Box-Muller, libm
  std::uint32_t next_below(std::uint32_t n);                                          // unbiased, n >= 1

 private:
  std::uint64_t key_, stream_, block_;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

// The image of `index` under a keyed pseudo-random permutation of [0, n): a Feistel network over the next
// even power of two, walked until it lands inside. O(1) memory, so a sample order needs no table. n >= 1,
// index < n.
std::uint64_t permute_index(std::uint64_t key, std::uint64_t n, std::uint64_t index);

}  // namespace trireme
