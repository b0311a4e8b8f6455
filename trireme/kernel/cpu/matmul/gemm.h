// Matrix product on the calling thread, from the one BLAS that this build links: OpenBLAS, or oneDNN's sgemm
// where oneDNN is built in (docs/decisions/001-onednn.md: never both in one program).
#pragma once

#include <cstdint>

namespace trireme::kernel {

// Row-major f32: C[m, n] = op(A) op(B) + beta C, op(A) being [m, k] and op(B) [k, n]. C overlaps neither
// input.
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;  // each below 2^31, as are the leading dimensions
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float beta = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

// Thread-safe, uses no other thread once gemm_prepare() was called in this process. Empty sizes are allowed.
void gemm(const Gemm& g);

// False where the library cannot be held to one thread per call (OpenBLAS built with OpenMP).
bool gemm_usable();
// Holds the library to one thread per call. Idempotent; every kernel that uses gemm() calls it in prepare().
void gemm_prepare();

// Name of the rows that use gemm(): written to plans, and different libraries give different bits.
#ifdef TRIREME_HAVE_ONEDNN
inline constexpr const char* kGemmRowName = "onednn_gemm";
#else
inline constexpr const char* kGemmRowName = "blas";
#endif

}  // namespace trireme::kernel
