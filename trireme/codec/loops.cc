#include "trireme/codec/loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "trireme/tensor/half.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

// Signs are taken from memory, so that no vector type of another instruction set is passed.
namespace trireme::codec {

namespace baseline {
namespace {
inline std::uint32_t signs16(const float* p) {
  std::uint32_t mask = 0;
#ifdef __x86_64__
  for (unsigned i = 0; i < 4; ++i)
    mask |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_loadu_ps(p + 4 * i))) << (4 * i);
#else
  for (unsigned i = 0; i < 16; ++i) mask |= (std::signbit(p[i]) ? 1U : 0U) << i;
#endif
  return mask;
}
#define TR_SIGNS16(v) signs16(reinterpret_cast<const float*>(&(v)))
#include "trireme/codec/loops.inc"
#undef TR_SIGNS16
}  // namespace
}  // namespace baseline

#ifdef __x86_64__
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2 {
namespace {
inline std::uint32_t signs16(const float* p) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_loadu_ps(p))) |
         static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_loadu_ps(p + 8))) << 8;
}
#define TR_HAS_F16C
#define TR_SIGNS16(v) signs16(reinterpret_cast<const float*>(&(v)))
#include "trireme/codec/loops.inc"
#undef TR_SIGNS16
}  // namespace
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,prefer-vector-width=512")
#endif
namespace avx512 {
namespace {
inline std::uint32_t signs16(const float* p) { return _mm512_movepi32_mask(_mm512_loadu_si512(p)); }
#define TR_SIGNS16(v) signs16(reinterpret_cast<const float*>(&(v)))
#include "trireme/codec/loops.inc"
#undef TR_SIGNS16
}  // namespace
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const Loops& loops() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return avx512::kLoops;
  // Whatever has AVX2 has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kLoops;
  return baseline::kLoops;
}
#else
const Loops& loops() { return baseline::kLoops; }
#endif
const Loops& baseline_loops() { return baseline::kLoops; }

}  // namespace trireme::codec
