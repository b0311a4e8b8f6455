// Folds over any dimensions; the text of a fold comes before it.
#pragma once

#include "trireme/kernel/cuda/norm/reduce_log_sum.cu"

typedef u32 I;
constexpr int kKeptDims = 2, kFoldedDims = 2;

#pragma text kFoldText
struct Dims {
  i64 size[4], stride[4];
};
template <int N>
__device__ __forceinline__ I offset_of(const Dims& d, I i) {
  I at = 0;
#pragma unroll
  for (int k = N - 1; k > 0; --k) {
    const I size = (I)d.size[k];
    at += i % size * (I)d.stride[k];
    i /= size;
  }
  return N > 0 ? at + i * (I)d.stride[0] : 0;
}

// Merges tree[t], tree[t + step], tree[t + 2 step]... of `many` (a power of two) into tree[t].
__device__ __forceinline__ void merge_tree(State* tree, int t, int place, int many, int step) {
  for (int k = many / 2; k > 0; k /= 2) {
    __syncthreads();
    if (place < k) tree[t] = join(tree[t], tree[t + k * step]);
  }
}
// With one part the result, else the state of a part.
__device__ __forceinline__ void put(void* to, I at, State s, i64 count, bool whole) {
  if (whole)
    static_cast<Out*>(to)[at] = last(s, count);
  else
    static_cast<State*>(to)[at] = s;
}

// The folded elements from threadIdx (or its packs) on: f(packs of four loads), so that these are in
// flight together.
template <bool kAligned, class F>
__device__ __forceinline__ void fold_range(const T* base, const Dims& folded, I r, I end, I step, F f) {
  for (; r + 3 * step < end; r += 4 * step) {
    Packed p[4];
#pragma unroll
    for (int u = 0; u < 4; ++u)
      p[u] = load_pack<kAligned>(base + offset_of<kFoldedDims>(folded, r + u * step));
#pragma unroll
    for (int u = 0; u < 4; ++u) f(p[u], r + u * step);
  }
  for (; r < end; r += step) f(load_pack<kAligned>(base + offset_of<kFoldedDims>(folded, r)), r);
}
template <class F>
__device__ __forceinline__ void fold_part(const T* x, I base, const Dims& folded, I first, I step, i64 count,
                                          i64 part, F f) {
  const I begin = (I)blockIdx.y * (I)part;
  const I end = begin + (I)part < (I)count ? begin + (I)part : (I)count;
  if (is_aligned(x))
    fold_range<true>(x + base, folded, begin + first, end, step, f);
  else
    fold_range<false>(x + base, folded, begin + first, end, step, f);
}

// Threads x along the folded elements, threads y over results; blocks y over parts of `part` elements.
extern "C" __global__ void fold_rows(const T* x, void* out, Dims kept, Dims folded, i64 results, i64 count,
                                     i64 part) {
  __shared__ State tree[256];
  const I o = (I)blockIdx.x * blockDim.y + threadIdx.y;
  const bool mine = o < (I)results;
  State s = first();
  if (mine)
    fold_part(x, offset_of<kKeptDims>(kept, o), folded, (I)threadIdx.x * kPack, (I)blockDim.x * kPack, count,
              part, [&](const Packed& p, I r) {
#pragma unroll
                for (int v = 0; v < kPack; ++v) s = take(s, load_acc(p.v[v]), r + v);
              });
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
  tree[t] = s;
  merge_tree(tree, t, threadIdx.x, blockDim.x, 1);
  if (mine && threadIdx.x == 0) put(out, (I)blockIdx.y * (I)results + o, tree[t], count, gridDim.y == 1);
}

// Threads x along results, kPack each; threads y over the folded elements; blocks y over parts.
extern "C" __global__ void fold_columns(const T* x, void* out, Dims kept, Dims folded, i64 results, i64 count,
                                        i64 part) {
  __shared__ State tree[kPack][256];
  const I o = ((I)blockIdx.x * blockDim.x + threadIdx.x) * kPack;
  const bool mine = o < (I)results;
  State s[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) s[v] = first();
  if (mine)
    fold_part(x, offset_of<kKeptDims>(kept, o), folded, threadIdx.y, blockDim.y, count, part,
              [&](const Packed& p, I r) {
#pragma unroll
                for (int v = 0; v < kPack; ++v) s[v] = take(s[v], load_acc(p.v[v]), r);
              });
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    tree[v][t] = s[v];
    merge_tree(tree[v], t, threadIdx.y, blockDim.y, blockDim.x);
    if (mine && threadIdx.y == 0)
      put(out, (I)blockIdx.y * (I)results + o + v, tree[v][t], count, gridDim.y == 1);
  }
}

// Threads x along results, threads y over the parts of one.
extern "C" __global__ void merge_parts(const State* parts, void* out, i64 results, i64 num_parts, i64 count) {
  __shared__ State tree[256];
  const i64 o = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  State s = first();
  if (o < results)
    for (i64 k = threadIdx.y; k < num_parts; k += blockDim.y) s = join(s, parts[k * results + o]);
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
  tree[t] = s;
  merge_tree(tree, t, threadIdx.y, blockDim.y, blockDim.x);
  if (o < results && threadIdx.y == 0) put(out, o, tree[t], count, true);
}
