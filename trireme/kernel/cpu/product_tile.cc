#include "trireme/kernel/cpu/product_tile.h"

#include "trireme/base/check.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace trireme::kernel {

#ifdef __x86_64__

bool has_product_tile() { return __builtin_cpu_supports("avx512f") != 0; }

__attribute__((target("avx512f"))) void product_tile(const float* a, const float* b, std::int64_t k,
                                                     bool adds, float* c, std::int64_t ldc) {
  __m512 sums[kTileRows][2];
#pragma GCC unroll 14
  for (int i = 0; i < kTileRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (std::int64_t p = 0; p < k; ++p) {
    const __m512 left = _mm512_loadu_ps(b), right = _mm512_loadu_ps(b + 16);
    _mm_prefetch(reinterpret_cast<const char*>(b + 8 * kTileColumns), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + 8 * kTileColumns + 16), _MM_HINT_T0);
#pragma GCC unroll 14
    for (int i = 0; i < kTileRows; ++i) {
      const __m512 x = _mm512_set1_ps(a[i]);
      sums[i][0] = _mm512_fmadd_ps(x, left, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(x, right, sums[i][1]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
#pragma GCC unroll 14
  for (int i = 0; i < kTileRows; ++i) {
    float* const row = c + i * ldc;
    if (adds) {
      sums[i][0] = _mm512_add_ps(sums[i][0], _mm512_loadu_ps(row));
      sums[i][1] = _mm512_add_ps(sums[i][1], _mm512_loadu_ps(row + 16));
    }
    _mm512_storeu_ps(row, sums[i][0]);
    _mm512_storeu_ps(row + 16, sums[i][1]);
  }
}

#else

bool has_product_tile() { return false; }
void product_tile(const float*, const float*, std::int64_t, bool, float*, std::int64_t) {
  TR_CHECK(false, "no product_tile on this processor");
}

#endif

}  // namespace trireme::kernel
