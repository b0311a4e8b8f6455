#include "trireme/kernel/cpu/fused_loops.h"

#include <string_view>

#include "trireme/kernel/cpu/simd/loops.h"

namespace trireme::kernel::baseline {
#include "trireme/kernel/cpu/fused_loops.inc"
}  // namespace trireme::kernel::baseline

#ifdef __x86_64__

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace trireme::kernel::avx2 {
#include "trireme/kernel/cpu/fused_loops.inc"
}  // namespace trireme::kernel::avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
#endif
namespace trireme::kernel::avx512 {
#include "trireme/kernel/cpu/fused_loops.inc"
}  // namespace trireme::kernel::avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

namespace trireme::kernel {

const ChainLoops& chain_loops() {
  [[maybe_unused]] const std::string_view isa = vector_loops().isa;
#ifdef __x86_64__
  if (isa == "avx512") return avx512::kChains;
  if (isa == "avx2") return avx2::kChains;
#endif
  return baseline::kChains;
}

}  // namespace trireme::kernel
