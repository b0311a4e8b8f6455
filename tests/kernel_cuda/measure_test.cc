// Algorithms of libraries: how plans name them, and which of them is fastest.
#include "trireme/kernel/cuda/cuda.h"

#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/op/ops.h"

namespace trireme::kernel::cuda::test {
namespace {

TEST(CudaAlgorithms, AreBehindASlashInTheNameOfAKernel) {
  EXPECT_EQ(kernel_name("cublaslt", 0), "cublaslt");
  EXPECT_EQ(kernel_name("cublaslt", 3), "cublaslt/3");
  EXPECT_EQ(row_of("cublaslt/12"), "cublaslt");
  EXPECT_EQ(algorithm_of("cublaslt/12"), 12);
  EXPECT_EQ(algorithm_of("nvrtc"), 0);
}

TEST(CudaAlgorithms, AreThoseOfLibraries) {
  EXPECT_TRUE(has_algorithms(op::kMatmul));
  EXPECT_TRUE(has_algorithms(op::kConv2dInputGrad));
  EXPECT_FALSE(has_algorithms(op::kLayerNorm));
}

TEST(CudaAlgorithms, AreTimedAndThoseBeyondTheListAreNotMade) {
  TR_NEEDS_GPU(gpu().why);
  const std::vector<TensorType> in{{DType::kBF16, {256, 128}}, {DType::kBF16, {128, 512}}},
      out{{DType::kBF16, {256, 512}}};
  const op::Attrs attrs = *op::complete_attrs(op::kMatmul, {});
  CudaQuery query{op::kMatmul, in, out, attrs, *gpu().device};
  const auto row = choose_cuda_kernel(query, "cublaslt");
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  const std::size_t before = gpu().device->bytes_in_use();
  const auto times = time_algorithms(query, **row, 4);
  ASSERT_TRUE(times.ok()) << times.status().to_string();
  EXPECT_GE(times->tried, 1);
  EXPECT_LE(times->tried, 5);
  EXPECT_LE(times->seconds, times->first_seconds);
  EXPECT_EQ(gpu().device->bytes_in_use(), before);
  query.algorithm = 10000;
  EXPECT_EQ((*row)->make(query).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
