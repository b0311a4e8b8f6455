// Tests of graphs that run on the GPU of this machine.
#pragma once

#include <memory>
#include <string>

#include "tests/exec/fixtures.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/kernel/cuda/device/device.h"

namespace trireme::exec {

class OnGpu : public ::testing::Test {
 protected:
  // Opened once per process: contexts are slow to make.
  static const Result<std::shared_ptr<kernel::cuda::CudaDevice>>& gpu() {
    static const auto opened = kernel::cuda::open_device(0);
    return opened;
  }
  static std::shared_ptr<Device> device() { return *gpu(); }

  void SetUp() override { TR_NEEDS_GPU(gpu().ok() ? "" : gpu().status().message()); }

  static std::shared_ptr<const CompiledGraph> compiled(const Graph& graph, CompileOptions options = {}) {
    options.device = device();
    auto made = compile(graph, std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  }

  static Tensor to_device(const Tensor& host) {
    Tensor there = *Tensor::allocate(*device(), host.type());
    const std::size_t bytes = host.type().num_bytes();
    EXPECT_TRUE(
        device()->copy(host.buffer().slice(host.offset_bytes(), bytes), there.buffer(), nullptr).ok());
    return there;
  }
  static Tensor to_host(const Tensor& there) {
    Tensor host = *Tensor::allocate(cpu_device(), there.type());
    const std::size_t bytes = host.type().num_bytes();
    EXPECT_TRUE(
        device()->copy(there.buffer().slice(there.offset_bytes(), bytes), host.buffer(), nullptr).ok());
    return host;
  }

  // Within what another order of sums changes, measured against the largest element.
  static void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
    ASSERT_EQ(got.type(), want.type()) << what;
    const auto a = got.values<float>(), b = want.values<float>();
    float largest = 1;
    for (const float v : b) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < b.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]), 1e-4F * largest)
          << what << ", element " << i << ": " << a[i] << ", " << b[i];
  }
};

}  // namespace trireme::exec
