#include "trireme/kernel/cpu/simd/sets.h"

namespace trireme::kernel {

const VectorLoops& vector_loops() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return kAvx512Loops;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Loops;
#endif
  return kBaselineLoops;
}

}  // namespace trireme::kernel
