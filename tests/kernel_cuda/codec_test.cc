// Texts of encoders compile; what they compute is in tests/comm_cuda/device_codec_test.cc.
#include "trireme/kernel/cuda/cuda.h"

#include "tests/kernel_cuda/gpu.h"

namespace trireme::kernel::cuda::test {
namespace {

TEST(MessageCoder, CompilesForEveryEncodingAndAnyNumberOfMessages) {
  if (gpu().device == nullptr) GTEST_SKIP() << gpu().why;
  const std::vector<Addition> three = {{0, 1}, {3, 2}};
  for (const Encoding encoding : {Encoding::kF16, Encoding::kBf16, Encoding::kOneBit, Encoding::kTopK}) {
    MessageFormat format;
    format.encoding = encoding;
    const auto one = make_message_coder(*gpu().device, format, 1, {});
    EXPECT_TRUE(one.ok()) << one.status().to_string();
    const auto some = make_message_coder(*gpu().device, format, 3, three);
    EXPECT_TRUE(some.ok()) << some.status().to_string();
  }
  const auto too_many = make_message_coder(*gpu().device, {}, VectorSum::kMostVectors + 1, {});
  EXPECT_EQ(too_many.status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
