// The shapes that the CPU kernels are tested with, on the GPU: larger than the conformance cases, odd sizes,
// ties.
#include <algorithm>
#include <cmath>

#include "tests/conformance/op_cases.h"
#include "tests/kernel/runner.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::to_doubles;

class CudaKernels : public ::testing::TestWithParam<int> {};

// Says it once for the hundreds of cases below, which then compare nothing.
TEST(CudaKernelsHere, AreComparedOnAGpu) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  EXPECT_FALSE(kernel::test::all_cases().empty());
}

// The reference of a formed op rounds what the op itself gives before it is cast: with operands in 16 bits
// an f32 result may be that far from it, too.
double bound(const kernel::test::Problem& p, DType out) {
  const auto any = [&](DType dtype) {
    const auto has = [&](const TensorType& type) { return type.dtype == dtype; };
    return out == dtype || (!p.forms.is_plain() && std::any_of(p.inputs.begin(), p.inputs.end(), has));
  };
  return any(DType::kBF16) ? 8e-3 : any(DType::kF16) ? 1e-3 : 1e-5;
}

// Products that round an f32 operand as they read it: pass round_in_products makes them on the host only.
bool is_of_the_host(const kernel::test::Case& c) { return c.op == "matmul" && c.forms == "-,bf16>-"; }

TEST_P(CudaKernels, ComeToWhatTheReferenceComesTo) {
  if (!gpu().computes()) return;
  const kernel::test::Case c = kernel::test::all_cases()[static_cast<std::size_t>(GetParam())];
  const kernel::test::Problem p(c);
  const OnDevice on(*p.def, p.inputs, p.attrs, /*tf32=*/false, p.forms);
  if (is_left_out(*p.def) || is_of_the_host(c)) return;
  ASSERT_TRUE(on.status().ok()) << on.status().to_string();
  const auto got = on.run(kernel::test::make_inputs(p, p.dtype));
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  const kernel::test::Values want = kernel::test::run_reference(p, p.dtype);
  // The output of an op that writes its inputs is input 0: the reference shows it once.
  const std::size_t first = p.def->mutated_inputs.empty() ? 0 : 1;
  ASSERT_EQ(got->size() - first, want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> values = to_doubles((*got)[first + i]);
    double error = 0, size = 1e-30;
    ASSERT_EQ(values.size(), want[i].size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isnan(want[i][k]) && std::isnan(values[k])) continue;
      error += (values[k] - want[i][k]) * (values[k] - want[i][k]);
      size += want[i][k] * want[i][k];
    }
    const double most = bound(p, (*got)[first + i].dtype());
    EXPECT_LE(std::sqrt(error / size), most) << c.to_string() << " by " << on.row()->name << ", output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaKernels,
                         ::testing::Range(0, static_cast<int>(kernel::test::all_cases().size())));

}  // namespace
}  // namespace trireme::kernel::cuda::test
