// Inverse and determinant of small square matrices: a block has one matrix and eliminates as the reference
// does, with partial pivoting.
#include <algorithm>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

// The matrix, for the inverse with the identity on its right, lies in shared memory where it fits.
constexpr const char* kText = R"cuda(
typedef acc_t<T> A;

// Row of the largest element at or below the diagonal of column k, the first of equals. A NaN is never larger, and
// nothing is larger than one on the diagonal. Called by warp 0.
__device__ int pivot_row(const A* m, int n, int width, int k) {
  A largest = -1;
  int best = n;
  for (int i = k + threadIdx.x; i < n; i += 32) {
    const A size = fabs(m[(i64)i * width + k]);
    if (size > largest) largest = size, best = i;
  }
  for (int step = 16; step > 0; step >>= 1) {
    const A size = __shfl_xor_sync(0xffffffffu, largest, step);
    const int row = __shfl_xor_sync(0xffffffffu, best, step);
    if (size > largest || (size == largest && row < best)) largest = size, best = row;
  }
  const A own = m[(i64)k * width + k];
  return own != own ? k : best;
}

extern "C" __global__ void eliminate(const T* __restrict__ x, T* __restrict__ y, A* scratch, i64 count, int n,
                                     int in_shared) {
  extern __shared__ double memory[];
  __shared__ int best;
  const int width = kInverse ? 2 * n : n, t = threadIdx.x, threads = blockDim.x;
  A* m = in_shared ? (A*)memory : scratch + (i64)blockIdx.x * n * width;
  for (i64 b = blockIdx.x; b < count; b += gridDim.x) {
    __syncthreads();  // the matrix before may still be read
    for (int e = t; e < n * width; e += threads) {
      const int i = e / width, j = e % width;
      m[e] = j < n ? (A)load_acc(x[b * n * n + (i64)i * n + j]) : A(j - n == i ? 1 : 0);
    }
    __syncthreads();
    A product = 1;
    for (int k = 0; k < n; ++k) {
      if (t < 32) {
        const int row = pivot_row(m, n, width, k);
        if (t == 0) best = row;
      }
      __syncthreads();
      A *own = m + (i64)k * width, *other = m + (i64)best * width;
      if (best != k) {
        product = -product;
        for (int j = t; j < width; j += threads) {
          const A v = own[j];
          own[j] = other[j];
          other[j] = v;
        }
        __syncthreads();
      }
      const A pivot = own[k];
      product *= pivot;
      if (!kInverse && pivot == 0) {
        product = 0;
        break;
      }
      if (kInverse) {
        const A factor = 1 / pivot;
        for (int j = k + 1 + t; j < width; j += threads) own[j] *= factor;
        __syncthreads();
      }
      const int columns = width - k - 1;
      for (int e = t; e < n * columns; e += threads) {
        const int i = e / columns, j = k + 1 + e % columns;
        if (kInverse ? i == k : i <= k) continue;
        const A f = kInverse ? m[(i64)i * width + k] : m[(i64)i * width + k] / pivot;
        m[(i64)i * width + j] -= f * own[j];
      }
      __syncthreads();
    }
    if (!kInverse) {
      if (t == 0) y[b] = store_acc<T>(product);
      continue;
    }
    for (int e = t; e < n * n; e += threads)
      y[b * n * n + e] = store_acc<T>(m[(i64)(e / n) * width + n + e % n]);
  }
}
)cuda";

Made make_elimination(const CudaQuery& q, bool inverse) {
  constexpr std::int64_t kLargest = 16384;  // rows; element numbers stay below 2^31
  constexpr std::size_t kShared = std::size_t{96} << 10;
  const TensorType& x = q.inputs[0];
  const std::int64_t n = x.shape.dim(-1);
  std::int64_t count = 1;
  for (int d = 0; d + 2 < x.shape.rank(); ++d) count *= x.shape[d];
  if (n > kLargest) {
    return error(Code::kInvalid, "[kernel] {}: got matrices of {} rows, expected at most {} on a GPU",
                 q.def.name, n, kLargest);
  }
  const std::string head =
      fmt::format("typedef {} T; constexpr bool kInverse = {};\n", cuda_type(x.dtype), inverse);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(head + kText, "eliminate"));
  const std::size_t size = x.dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  const std::size_t bytes = static_cast<std::size_t>(n * n * (inverse ? 2 : 1)) * size;
  const bool in_shared = bytes <= kShared;
  const unsigned blocks = blocks_for(count, 1, 1, in_shared ? 1U << 20 : 264);
  const unsigned threads = n <= 8 ? 32 : n <= 32 ? 128 : n <= 96 ? 512 : 1024;
  const auto enqueue = [=](const CudaArgs& a) -> Status {
    if (count == 0 || (inverse && n == 0)) return ok_status();
    return launch(a.stream, *f, {blocks}, {threads}, in_shared ? bytes : 0, a.in(0).raw(), a.out(0).raw(),
                  a.workspace, count, static_cast<int>(n), in_shared ? 1 : 0);
  };
  return make_kernel(enqueue, in_shared ? 0 : bytes * blocks);
}

}  // namespace

Made make_inverse(const CudaQuery& q) { return make_elimination(q, true); }
Made make_determinant(const CudaQuery& q) { return make_elimination(q, false); }

}  // namespace trireme::kernel::cuda
