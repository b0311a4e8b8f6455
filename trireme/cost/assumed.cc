#include "trireme/cost/assumed.h"

namespace trireme::cost {

// Training resnet50, each convolution by the method that is fastest there, a core of a Xeon with AVX-512 has
// 77 GFLOP/s alone and 63 where sixteen do the same.
void assume_processor(int vector_bits, Rates& rates) {
  constexpr double kWideFlops = 75e9;
  if (vector_bits < 512) return;
  rates.machine.flops_per_second_per_core = kWideFlops;
  rates.comm.machine.flops_per_second_per_core = kWideFlops;
}

}  // namespace trireme::cost
