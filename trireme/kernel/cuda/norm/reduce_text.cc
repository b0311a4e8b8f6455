#include "trireme/kernel/cuda/norm/reduce_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {
namespace {

std::string joined(std::string text, std::initializer_list<Constant> constants,
                   std::initializer_list<std::string_view> parts) {
  for (const Constant& c : constants) text += fmt::format("constexpr int {} = {};\n", c.name, c.value);
  for (const std::string_view part : parts) text += part;
  return text;
}

}  // namespace

std::string typed_text(DType dtype, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts) {
  const std::string head = fmt::format("using T = {};\nusing A = acc_t<T>;\n",
                                       dtype == DType::kBool ? cuda_type(DType::kU8) : cuda_type(dtype));
  return joined(head, constants, parts);
}

std::string typed_text(std::initializer_list<TypeName> types, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts) {
  std::string head = fmt::format("using T = {};\n", cuda_type(types.begin()->dtype));
  bool wide = false;
  for (const TypeName& t : types) {
    head += fmt::format("using {} = {};\n", t.name, cuda_type(t.dtype));
    wide = wide || t.dtype == DType::kF64;
  }
  head += wide ? "using A = double;\n" : "using A = float;\n";
  return joined(head, constants, parts);
}

int pack_width(std::size_t element_bytes, std::int64_t n) {
  auto width = static_cast<std::int64_t>(16 / element_bytes);
  while (n % width != 0) width /= 2;
  return static_cast<int>(width);
}
int pack_width(DType dtype, std::int64_t n) { return pack_width(dtype_size(dtype), n); }

std::string_view pack_text() {
  return R"cuda(
using Packed = Pack<T, kPack>;
template <class E> __device__ __forceinline__ bool is_aligned(const E* p) { return (u64)p % sizeof(Pack<E, kPack>) == 0; }
// Loops that must have several loads in flight settle the alignment before them: a template argument.
template <bool kAligned, class E> __device__ __forceinline__ Pack<E, kPack> load_pack(const E* p) {
  if constexpr (kAligned) return *reinterpret_cast<const Pack<E, kPack>*>(p);
  Pack<E, kPack> r;
#pragma unroll
  for (int v = 0; v < kPack; ++v) r.v[v] = p[v];
  return r;
}
template <bool kAligned, class E> __device__ __forceinline__ void store_pack(E* p, const Pack<E, kPack>& r) {
  if constexpr (kAligned) {
    *reinterpret_cast<Pack<E, kPack>*>(p) = r;
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) p[v] = r.v[v];
  }
}
template <class E> __device__ __forceinline__ Pack<E, kPack> load_pack(const E* p, bool aligned) {
  return aligned ? load_pack<true>(p) : load_pack<false>(p);
}
template <class E> __device__ __forceinline__ void store_pack(E* p, const Pack<E, kPack>& r, bool aligned) {
  if (aligned) store_pack<true>(p, r);
  else store_pack<false>(p, r);
}
template <class E> __device__ __forceinline__ A widen(E v) { return (A)load_acc(v); }
template <class E> __device__ __forceinline__ E narrow(A v) { return store_acc<E>((acc_t<E>)v); }

// The fast exponential is exact enough for elements of 16 bits.
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

RowPlan plan_row(DType dtype, std::size_t widest_bytes, std::int64_t n, bool again) {
  constexpr std::int64_t kMostShared = 208 * 1024;  // of 227 KiB that a block can have
  RowPlan plan;
  plan.pack = pack_width(widest_bytes, n);
  const std::int64_t packs = n / plan.pack, bytes = n * static_cast<std::int64_t>(dtype_size(dtype));
  const int most = std::min(8, 32 / plan.pack);  // packs of a thread, while more threads can be had
  while (plan.threads < 512 && packs > most * plan.threads) plan.threads *= 2;
  const std::int64_t keep = (packs + plan.threads - 1) / plan.threads;
  plan.kept = keep <= 8;
  plan.keep = plan.kept ? static_cast<int>(std::max<std::int64_t>(keep, 1)) : 1;
  plan.in_shared = !plan.kept && again && bytes <= kMostShared;
  if (plan.in_shared) {
    plan.shared_bytes = static_cast<std::size_t>(bytes);
    if (bytes > kMostShared / 2) plan.threads = 1024;  // one block per multiprocessor
  }
  return plan;
}

std::string row_constants(const RowPlan& plan) {
  return fmt::format("constexpr int kThreads = {}, kKeep = {};\nconstexpr bool kKept = {}, kInShared = {};\n",
                     plan.threads, plan.keep, plan.kept, plan.in_shared);
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
__device__ __forceinline__ void* row_memory() {
  extern __shared__ __align__(16) unsigned char row_bytes[];
  return row_bytes;
}

// A row of n elements. The thread of lane l has the packs l, l + kThreads... and is alone with them, in registers
// and in shared memory.
template <class E, bool kAligned> struct Row {
  using P = Pack<E, kPack>;
  const E* from;
  int n;
  P kept[kKeep];

  __device__ __forceinline__ Row(const E* first, i64 size) : from(first), n((int)size) {
    if constexpr (kKept) {
#pragma unroll
      for (int u = 0; u < kKeep; ++u) {
        const int i = (u * kThreads + row_lane()) * kPack;
        if (i < n) kept[u] = load_pack<kAligned>(from + i);
      }
    }
  }
  // f(pack, index of its first element, its place in `kept` or 0) for the packs of this thread, in order.
  template <bool kFirst, class F> __device__ __forceinline__ void pass(F f) const {
    constexpr int kStep = kThreads * kPack;
    int i = row_lane() * kPack;
    if constexpr (kKept) {
#pragma unroll
      for (int u = 0; u < kKeep; ++u)
        if (i + u * kStep < n) f(kept[u], i + u * kStep, u);
    } else if constexpr (kInShared && !kFirst) {
      const P* saved = static_cast<const P*>(row_memory());
#pragma unroll 4
      for (; i < n; i += kStep) f(saved[i / kPack], i, 0);
    } else {
      P* saved = static_cast<P*>(row_memory());
      for (; i + 3 * kStep < n; i += 4 * kStep) {  // four loads in flight
        P p[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) p[u] = load_pack<kAligned>(from + i + u * kStep);
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          if (kInShared) saved[(i + u * kStep) / kPack] = p[u];
          f(p[u], i + u * kStep, 0);
        }
      }
      for (; i < n; i += kStep) {
        const P p = load_pack<kAligned>(from + i);
        if (kInShared) saved[i / kPack] = p;
        f(p, i, 0);
      }
    }
  }
  // The first pass over a row, and those after it.
  template <class F> __device__ __forceinline__ void scan(F f) const {
    pass<true>([&](const P& p, int i, int) { f(p, i); });
  }
  template <class F> __device__ __forceinline__ void each(F f) const {
    pass<false>([&](const P& p, int i, int) { f(p, i); });
  }
  template <class F> __device__ __forceinline__ void each_placed(F f) const { pass<false>(f); }
};
)cuda";
}

}  // namespace trireme::kernel::cuda
