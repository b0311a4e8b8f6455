// Loops for up to three members of a fused group at once: a binary op (or none) and two ops on its result (or
// fewer). Each member is rounded on its own, as in the loops of simd/loops.h: the same bits with fewer passes
// through the cache.
#pragma once

#include <cstdint>

namespace trireme::kernel {

enum class Lead : std::uint8_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kReluGrad
};                                                        // a; a + b; a - b; a * b; a where b > 0
enum class Tail : std::uint8_t { kNone, kRelu, kScale };  // v; max(v, 0); v * factor

// out may be a or b. `first` and `second` are the factors of kScale.
using ChainLoop = void (*)(const float* a, const float* b, float first, float second, float* out,
                           std::int64_t n);

struct ChainLoops {
  ChainLoop at[5][3][3];  // by Lead, Tail, Tail
  ChainLoop find(Lead lead, Tail first, Tail second) const {
    return at[static_cast<int>(lead)][static_cast<int>(first)][static_cast<int>(second)];
  }
};

// The loops of the instruction set that vector_loops() uses.
const ChainLoops& chain_loops();

}  // namespace trireme::kernel
