// gemm() from oneDNN.
#ifdef TRIREME_HAVE_ONEDNN

#include <fmt/format.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/base/check.h"
#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/one_thread.h"

namespace trireme::kernel {

#ifdef __x86_64__
namespace {

bool hides_tiles() {
  constexpr unsigned kTiles = 0x1D;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kTiles, 0, &a, &b, &c, &d) == 0 || a == 0;
}

}  // namespace
#endif

void hold_instruction_set() {
#ifdef __x86_64__
  [[maybe_unused]] static const bool held =
      hides_tiles() && dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16) == dnnl_success;
#endif
}

bool gemm_usable() { return true; }
void gemm_prepare() {}

void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j)
        g.c[i * g.ldc + j] = g.beta == 0 ? 0 : g.beta * g.c[i * g.ldc + j];
    return;
  }
  const OneThread one_thread;
  const auto at_least_one = [](std::int64_t v) { return std::max<std::int64_t>(v, 1); };
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0F, g.a,
                 at_least_one(g.lda), g.b, at_least_one(g.ldb), g.beta, g.c, at_least_one(g.ldc));
  TR_CHECK(status == dnnl_success, "oneDNN sgemm {}x{}x{}: status {}", g.m, g.n, g.k,
           static_cast<int>(status));
}

bool has_bf16_units() {
  hold_instruction_set();
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

std::string gemm_library() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("onednn={}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
