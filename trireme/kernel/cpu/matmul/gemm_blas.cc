// gemm() from OpenBLAS.
#ifndef TRIREME_HAVE_ONEDNN

#include <cblas.h>

#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/matmul/gemm.h"

namespace trireme::kernel {

bool gemm_usable() { return openblas_get_parallel() != OPENBLAS_OPENMP; }

// The setting is the library's own and the same for the whole process; it is only ever set to one.
void gemm_prepare() {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  const auto as_int = [](std::int64_t v) { return static_cast<blasint>(v > 0 ? v : 1); };
  cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
              g.transpose_b ? CblasTrans : CblasNoTrans, as_int(g.m), as_int(g.n), static_cast<blasint>(g.k),
              1.0F, g.a, as_int(g.lda), g.b, as_int(g.ldb), g.beta, g.c, as_int(g.ldc));
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": name and version only.
bool has_bf16_units() { return false; }

std::string gemm_library() {
  const std::string config = openblas_get_config();
  const std::size_t space = config.find(' ', config.find(' ') + 1);
  return "blas=" + config.substr(0, space) + (gemm_usable() ? "" : " (OpenMP build: not used)");
}

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
