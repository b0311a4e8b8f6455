#include "trireme/kernel/cuda/matmul/blas_plain.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {
namespace {

constexpr unsigned kTile = 16;
constexpr unsigned kMostBlocks = 65535;  // along y and z of a grid

// A block makes tiles of C, a thread one element of each; tiles of A and B go through shared memory.
constexpr const char* kText = R"cuda(
typedef acc_t<T> A;
constexpr int kTile = 16;

extern "C" __global__ void plain_product(const T* a, const T* b, C* c, i64 m, i64 n, i64 k, i64 batch, i64 step_a,
                                         i64 step_b, i64 step_c, A alpha, A beta) {
  __shared__ A rows[kTile][kTile + 1], columns[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const i64 j = (i64)blockIdx.x * kTile + x;
  for (i64 t = blockIdx.z; t < batch; t += gridDim.z) {
    const T *pa = a + t * step_a, *pb = b + t * step_b;
    for (i64 i0 = (i64)blockIdx.y * kTile; i0 < m; i0 += (i64)gridDim.y * kTile) {
      const i64 i = i0 + y;
      A sum = 0;
      for (i64 p0 = 0; p0 < k; p0 += kTile) {
        const i64 pr = p0 + x, pc = p0 + y;
        rows[y][x] = i < m && pr < k ? load_acc(pa[kTransposeA ? pr * m + i : i * k + pr]) : (A)0;
        columns[y][x] = j < n && pc < k ? load_acc(pb[kTransposeB ? j * k + pc : pc * n + j]) : (A)0;
        __syncthreads();
        for (int p = 0; p < kTile; ++p) sum += rows[y][p] * columns[p][x];
        __syncthreads();
      }
      if (i >= m || j >= n) continue;
      C* to = c + t * step_c + i * n + j;
      *to = store_acc<C>(beta == 0 ? alpha * sum : alpha * sum + beta * load_acc(*to));
    }
  }
}
)cuda";

unsigned blocks(std::int64_t n, unsigned each) {
  return blocks_for(n, static_cast<int>(each), 1, kMostBlocks);
}

}  // namespace

Result<const Function*> plain_product(CudaDevice& device, const ProductSpec& spec) {
  return device.function(
      fmt::format("typedef {} T;\ntypedef {} C;\nconstexpr bool kTransposeA = {}, kTransposeB = {};\n{}",
                  cuda_type(spec.dtype), cuda_type(spec.wide ? DType::kF32 : spec.dtype), spec.transpose_a,
                  spec.transpose_b, kText),
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
