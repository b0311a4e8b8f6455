// What a GPU could do at most, by its own figures: for predictions.
#pragma once

#include <string_view>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Zero where the driver does not say.
struct PeakRates {
  double flops_per_second = 0;  // of products in the precision, added up in f32
  double bytes_per_second = 0;  // of its memory
};
// `precision` as train.precision has it: f32, tf32, bf16, f16.
PeakRates peak_rates(const CudaDevice& device, std::string_view precision);

}  // namespace trireme::kernel::cuda
