#include "trireme/runtime/real/processor.h"

namespace trireme::runtime {

int vector_bits() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return 512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 256;
#endif
  return 128;
}

}  // namespace trireme::runtime
