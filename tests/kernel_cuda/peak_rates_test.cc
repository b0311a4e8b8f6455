// What a GPU says of itself, as rates.
#include "trireme/kernel/cuda/cuda.h"

#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"

namespace trireme::kernel::cuda::test {
namespace {

TEST(PeakRates, AreThoseOfThePrecision) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  const PeakRates f32 = peak_rates(*gpu().device, "f32"), tf32 = peak_rates(*gpu().device, "tf32"),
                  bf16 = peak_rates(*gpu().device, "bf16"), f16 = peak_rates(*gpu().device, "f16");
  EXPECT_GT(f32.flops_per_second, 0);
  EXPECT_GT(f32.bytes_per_second, 0);
  EXPECT_GE(bf16.flops_per_second, f32.flops_per_second);
  EXPECT_EQ(tf32.flops_per_second, bf16.flops_per_second / 2);
  EXPECT_EQ(f16.flops_per_second, bf16.flops_per_second);
  EXPECT_EQ(bf16.bytes_per_second, f32.bytes_per_second);
}

TEST(PeakRates, ADeviceThatOnlyCompilesHasNone) {
  const auto compiler = CudaDevice::open_for_compiling();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  EXPECT_EQ(peak_rates(**compiler, "bf16").flops_per_second, 0);
  EXPECT_EQ(peak_rates(**compiler, "bf16").bytes_per_second, 0);
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
