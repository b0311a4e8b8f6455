// Sums of vectors in a given order, and memory that is told to others.
#include "trireme/kernel/cuda/cuda.h"

#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"

namespace trireme::kernel::cuda::test {
namespace {

const std::vector<Addition> kThree = {{1, 2}, {0, 3}};  // a + (b + c)

Tensor vector_of(std::int64_t n, float first, float step) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {n}});
  for (std::int64_t i = 0; i < n; ++i) t.data<float>()[i] = first + step * static_cast<float>(i);
  return t;
}

TEST(VectorSum, CompilesForAnyNumberOfVectors) {
  if (gpu().device == nullptr) GTEST_SKIP() << gpu().why;
  EXPECT_TRUE(make_vector_sum(*gpu().device, 1, {}, 2).ok());
  EXPECT_TRUE(make_vector_sum(*gpu().device, 3, kThree, 1).ok());
  std::vector<Addition> chain = {{0, 1}};
  constexpr int kMany = 40;
  for (int i = 2; i < kMany; ++i) chain.push_back({kMany + i - 2, i});
  EXPECT_TRUE(make_vector_sum(*gpu().device, kMany, chain, 1).ok());
  const auto too_many = make_vector_sum(*gpu().device, kMany, chain, VectorSum::kMostVectors);
  EXPECT_EQ(too_many.status().code(), Code::kInvalid);
}

// Values whose sum depends on the order.
TEST(VectorSum, AddsInTheOrderThatWasAskedForAndLeavesTheRestAlone) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  for (const std::int64_t n : {1, 4, 1023, 70'001}) {
    const Tensor a = vector_of(n, 1e8F, 1), b = vector_of(n, -1e8F, 3), c = vector_of(n, 0.25F, 0.125F);
    const Tensor da = to_device(a), db = to_device(b), dc = to_device(c);
    const auto sum = make_vector_sum(*gpu().device, 3, kThree, 2);
    ASSERT_TRUE(sum.ok()) << sum.status().to_string();
    const std::unique_ptr<KernelStream> own = make_kernel_stream(*gpu().device);
    KernelStream& stream = *own;
    const std::vector<const float*> in = {da.data<float>(), db.data<float>(), dc.data<float>()};
    const std::vector<float*> out = {da.data<float>(), dc.data<float>()};
    const std::int64_t begin = n > 100 ? 16 : 0;
    ASSERT_TRUE((*sum)->enqueue(stream, in, out, begin, n).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    const Tensor first = to_host(da), third = to_host(dc);
    for (std::int64_t i = 0; i < n; ++i) {
      const float want = a.data<float>()[i] + (b.data<float>()[i] + c.data<float>()[i]);
      EXPECT_EQ(first.data<float>()[i], i < begin ? a.data<float>()[i] : want) << i << " of " << n;
      EXPECT_EQ(third.data<float>()[i], i < begin ? c.data<float>()[i] : want) << i << " of " << n;
    }
  }
}

TEST(SharedMemory, IsMadeInWholePagesAndGivesAHandle) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  const Result<Buffer> memory = allocate_shareable(*gpu().device, 1000);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(memory->size_bytes() % (2 << 20), 0U);
  const Result<MemoryHandle> handle = share_memory(*gpu().device, *memory);
  EXPECT_TRUE(handle.ok() || handle.status().code() == Code::kUnavailable);  // some containers forbid it
  const Result<std::uint64_t> number = gpu_number(*gpu().device);
  ASSERT_TRUE(number.ok()) << number.status().to_string();
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
