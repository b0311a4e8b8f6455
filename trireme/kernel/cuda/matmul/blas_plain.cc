#include "trireme/kernel/cuda/matmul/blas_plain.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {

extern const char kPlainProductText[];  // blas_plain.cu

namespace {

constexpr unsigned kTile = 16;
constexpr unsigned kMostBlocks = 65535;  // along y and z of a grid

unsigned blocks(std::int64_t n, unsigned each) {
  return blocks_for(n, static_cast<int>(each), 1, kMostBlocks);
}

}  // namespace

Result<const Function*> plain_product(CudaDevice& device, const ProductSpec& spec) {
  return device.function(
      fmt::format("typedef {} T;\ntypedef {} C;\nconstexpr bool kTransposeA = {}, kTransposeB = {};\n{}",
                  cuda_type(spec.dtype), cuda_type(spec.wide ? DType::kF32 : spec.dtype), spec.transpose_a,
                  spec.transpose_b, kPlainProductText),
      "plain_product");
}

Status enqueue_plain(CudaStream& stream, const Function& f, const ProductSpec& s, const void* a,
                     const void* b, void* c) {
  const Dim grid{blocks_for(s.n, kTile, 1, (1U << 31U) - 1), blocks(s.m, kTile), blocks(s.batch, 1)},
      block{kTile, kTile};
  const auto with = [&](auto alpha, auto beta) {
    return launch(stream, f, grid, block, 0, a, b, c, s.m, s.n, s.k, s.batch, s.stride_a, s.stride_b,
                  s.stride_c, alpha, beta);
  };
  return s.dtype == DType::kF64 ? with(s.alpha, s.beta)
                                : with(static_cast<float>(s.alpha), static_cast<float>(s.beta));
}

}  // namespace trireme::kernel::cuda
