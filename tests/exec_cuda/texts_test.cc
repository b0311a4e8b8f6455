// Compiled kernels that are kept from start to start.
#include "tests/exec_cuda/on_gpu.h"
#include "trireme/kernel/compiled_texts.h"
#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {
namespace {

constexpr const char* kText = R"cuda(
extern "C" __global__ void kept(float* y) { y[threadIdx.x] = 7.0f + threadIdx.x; }
)cuda";

class Texts : public exec::OnGpu {
 protected:
  // Compiles or takes, and runs it.
  static void use(CudaDevice& gpu) {
    const Result<const Function*> kept = gpu.function(kText, "kept");
    ASSERT_TRUE(kept.ok()) << kept.status().to_string();
    const Tensor y = *Tensor::allocate(gpu, {DType::kF32, {2}});
    CudaStream stream(gpu);
    ASSERT_TRUE(launch(stream, **kept, {1}, {2}, 0, y.raw()).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    const Tensor host = to_host(y);
    EXPECT_EQ(host.data<float>()[0], 7.0F);
    EXPECT_EQ(host.data<float>()[1], 8.0F);
  }
};

TEST_F(Texts, AreCompiledOnceInAProcess) {
  const auto first = *CudaDevice::open(0), second = *CudaDevice::open(0);
  const int before = compiled_texts().num_added();
  use(*first);
  EXPECT_EQ(compiled_texts().num_added(), before + 1);
  use(*second);
  EXPECT_EQ(compiled_texts().num_added(), before + 1);
}

TEST_F(Texts, AreTakenByTheNextStart) {
  const std::string key(64, 'k'), other(64, 'o');
  CompiledTexts first, second;
  EXPECT_EQ(first.to_keep(), "");
  first.add(key, "compiled");
  first.add(other, "");
  second.take(first.to_keep());
  EXPECT_EQ(second.find(key), "compiled");
  EXPECT_EQ(second.find(other), "");
  EXPECT_EQ(second.find(std::string(64, 'x')), std::nullopt);
  EXPECT_EQ(second.to_keep(), "") << "nothing new to write";
  second.add(key, "again");
  CompiledTexts third;
  third.take(second.to_keep());
  EXPECT_EQ(third.find(key), "again");
  EXPECT_EQ(third.find(other), "");
}

TEST_F(Texts, ThatAreDamagedAreLeftAlone) {
  const std::string key(64, 'k');
  CompiledTexts first;
  first.add(key, "compiled");
  const std::string kept = first.to_keep();
  std::string flipped = kept;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& bytes :
       {flipped, kept.substr(0, kept.size() - 1), kept.substr(0, 20), std::string("something else")}) {
    CompiledTexts next;
    next.take(bytes);
    EXPECT_EQ(next.find(key), std::nullopt);
  }
}

}  // namespace
}  // namespace trireme::kernel::cuda
