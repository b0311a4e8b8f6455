#include "trireme/kernel/cuda/reduce_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {

std::string typed_text(DType dtype, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts) {
  std::string text = fmt::format("using T = {};\nusing A = acc_t<T>;\n",
                                 dtype == DType::kBool ? cuda_type(DType::kU8) : cuda_type(dtype));
  for (const Constant& c : constants) text += fmt::format("constexpr int {} = {};\n", c.name, c.value);
  for (const std::string_view part : parts) text += part;
  return text;
}

int pack_width(DType dtype, std::int64_t n) {
  auto width = static_cast<std::int64_t>(16 / dtype_size(dtype));
  while (n % width != 0) width /= 2;
  return static_cast<int>(width);
}

std::string_view pack_text() {
  return R"cuda(
using Packed = Pack<T, kPack>;
__device__ __forceinline__ bool is_aligned(const void* p) { return (u64)p % sizeof(Packed) == 0; }
__device__ __forceinline__ Packed load_pack(const T* p, bool aligned) {
  if (aligned) return *reinterpret_cast<const Packed*>(p);
  Packed r;
#pragma unroll
  for (int v = 0; v < kPack; ++v) r.v[v] = p[v];
  return r;
}
__device__ __forceinline__ void store_pack(T* p, const Packed& r, bool aligned) {
  if (aligned) {
    *reinterpret_cast<Packed*>(p) = r;
    return;
  }
#pragma unroll
  for (int v = 0; v < kPack; ++v) p[v] = r.v[v];
}

// The fast exponential is exact enough for results of 16 bits.
__device__ __forceinline__ float exp_of(float v) { return sizeof(T) == 2 ? __expf(v) : expf(v); }
__device__ __forceinline__ double exp_of(double v) { return exp(v); }
__device__ __forceinline__ float log_of(float v) { return logf(v); }
__device__ __forceinline__ double log_of(double v) { return log(v); }
__device__ __forceinline__ float root_of(float v) { return sqrtf(v); }
__device__ __forceinline__ double root_of(double v) { return sqrt(v); }
__device__ __forceinline__ A inf() { return (A)__int_as_float(0x7f800000); }
__device__ __forceinline__ A nan() { return (A)__int_as_float(0x7fc00000); }
__device__ __forceinline__ bool is_finite(A v) { return v - v == 0; }
)cuda";
}

unsigned RowPlan::blocks(std::int64_t rows) const {
  return blocks_for(rows, threads == 32 ? kWarps : 1, 1, 0x7fffffff);
}

RowPlan plan_row(DType dtype, std::int64_t n) {
  RowPlan plan;
  plan.pack = pack_width(dtype, n);
  const std::int64_t packs = n / plan.pack;
  while (plan.threads < 512 && packs > 4 * plan.threads) plan.threads *= 2;
  const std::int64_t keep = (packs + plan.threads - 1) / plan.threads;
  plan.kept = keep <= 8;
  plan.keep = plan.kept ? static_cast<int>(std::max<std::int64_t>(keep, 1)) : 1;
  return plan;
}

std::string_view row_text() {
  return R"cuda(
constexpr bool kByWarp = kThreads == 32;
__device__ __forceinline__ int row_lane() { return kByWarp ? threadIdx.x & 31 : threadIdx.x; }
__device__ __forceinline__ i64 row_index() {
  return kByWarp ? (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : (i64)blockIdx.x;
}
template <class V> __device__ __forceinline__ V row_sum(V v) {
  if constexpr (kByWarp) return warp_sum(v);
  else return block_sum(v);
}
template <class V> __device__ __forceinline__ V row_max(V v) {
  if constexpr (kByWarp) return warp_max(v);
  else return block_max(v);
}

// A row of n elements. The thread of lane l has the packs l, l + kThreads...
struct Row {
  const T* from;
  int n;
  bool aligned;
  Packed kept[kKeep];

  __device__ __forceinline__ Row(const T* first, i64 size) : from(first), n((int)size), aligned(is_aligned(first)) {
    if constexpr (kKept) {
#pragma unroll
      for (int u = 0; u < kKeep; ++u) {
        const int i = (u * kThreads + row_lane()) * kPack;
        if (i < n) kept[u] = load_pack(from + i, aligned);
      }
    }
  }
  // f(pack, index of its first element, its place in `kept` or 0) for the packs of this thread, in order.
  template <class F> __device__ __forceinline__ void each_placed(F f) const {
    if constexpr (kKept) {
#pragma unroll
      for (int u = 0; u < kKeep; ++u) {
        const int i = (u * kThreads + row_lane()) * kPack;
        if (i < n) f(kept[u], i, u);
      }
    } else {
      constexpr int kStep = kThreads * kPack;
      int i = row_lane() * kPack;
      for (; i + 3 * kStep < n; i += 4 * kStep) {  // four loads in flight
        const Packed a = load_pack(from + i, aligned), b = load_pack(from + i + kStep, aligned);
        const Packed c = load_pack(from + i + 2 * kStep, aligned), d = load_pack(from + i + 3 * kStep, aligned);
        f(a, i, 0);
        f(b, i + kStep, 0);
        f(c, i + 2 * kStep, 0);
        f(d, i + 3 * kStep, 0);
      }
      for (; i < n; i += kStep) f(load_pack(from + i, aligned), i, 0);
    }
  }
  template <class F> __device__ __forceinline__ void each(F f) const {
    each_placed([&](const Packed& p, int i, int) { f(p, i); });
  }
};
)cuda";
}

}  // namespace trireme::kernel::cuda
