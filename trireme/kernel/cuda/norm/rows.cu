// Rows of elements that a warp or a block shares.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

constexpr int kThreads = 32, kKeep = 1;
constexpr bool kKept = true, kInShared = false;

#pragma text kRowText
constexpr bool kByWarp = kThreads == 32;
__device__ __forceinline__ int row_lane() { return kByWarp ? threadIdx.x & 31 : threadIdx.x; }
__device__ __forceinline__ i64 row_index() {
  return kByWarp ? (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : (i64)blockIdx.x;
}
template <class V>
__device__ __forceinline__ V row_sum(V v) {
  if constexpr (kByWarp)
    return warp_sum(v);
  else
    return block_sum(v);
}
template <class V>
__device__ __forceinline__ V row_max(V v) {
  if constexpr (kByWarp)
    return warp_max(v);
  else
    return block_max(v);
}
__device__ __forceinline__ void* row_memory() {
  extern __shared__ __align__(16) unsigned char row_bytes[];
  return row_bytes;
}

// A row of n elements. The thread of lane l has the packs l, l + kThreads... and is alone with them, in
// registers and in shared memory.
template <class E, bool kAligned>
struct Row {
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
  template <bool kFirst, class F>
  __device__ __forceinline__ void pass(F f) const {
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
  template <class F>
  __device__ __forceinline__ void scan(F f) const {
    pass<true>([&](const P& p, int i, int) { f(p, i); });
  }
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    pass<false>([&](const P& p, int i, int) { f(p, i); });
  }
  template <class F>
  __device__ __forceinline__ void each_placed(F f) const {
    pass<false>(f);
  }
};
