// batch_norm over [rows, channels]: how threads share the rows, and inference.
#pragma once

#include "trireme/kernel/cuda/norm/norm.cu"

constexpr int kAcross = 32;  // threads x

#pragma text kNormColumnsText
struct Columns {
  i64 rows, channels, part, num_parts;
};
constexpr int kDown = 256 / kAcross;  // threads y; kAcross: threads x
__device__ __forceinline__ i64 channel_index() { return ((i64)blockIdx.x * kAcross + threadIdx.x) * kPack; }
// use(load(offset), offset) for the rows of this thread in part `which`, in order; kAhead loads are in
// flight. One is best where the walk writes too (measured): more threads fit.
template <int kAhead, class Load, class Use>
__device__ __forceinline__ void each_row(const Columns& s, i64 which, Load load, Use use) {
  const i64 begin = which * s.part, end = begin + s.part < s.rows ? begin + s.part : s.rows;
  i64 at = (begin + threadIdx.y) * s.channels + channel_index();
  const i64 stop = end * s.channels, step = kDown * s.channels;
  for (; at + (kAhead - 1) * step < stop; at += kAhead * step) {
    decltype(load(at)) p[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) p[u] = load(at + u * step);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) use(p[u], at + u * step);
  }
  for (; at < stop; at += step) use(load(at), at);
}
// The first walk goes backwards, since what was written last is still in the cache; the second one forwards,
// where the first one ended.
__device__ __forceinline__ i64 backwards() { return (i64)gridDim.y - 1 - blockIdx.y; }
template <class E>
__device__ __forceinline__ void load_values(A* to, const E* from) {
#pragma unroll
  for (int v = 0; v < kPack; ++v) to[v] = widen(from[v]);
}
// Adds up over threads y; parts: [num_parts][2][channels].
__device__ __forceinline__ void put_sums(A* parts, const Columns& s, const A* a, const A* b) {
  constexpr int kValues = kAcross * kPack;
  __shared__ A sums[2][kDown][kValues];
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    sums[0][threadIdx.y][threadIdx.x * kPack + v] = a[v];
    sums[1][threadIdx.y][threadIdx.x * kPack + v] = b[v];
  }
  __syncthreads();
  const i64 first = (i64)blockIdx.x * kValues;
  for (int i = threadIdx.y * kAcross + threadIdx.x; i < 2 * kValues; i += 256) {
    const int which = i / kValues, k = i % kValues;
    A total = 0;
#pragma unroll
    for (int d = 0; d < kDown; ++d) total += sums[which][d][k];
    if (first + k < s.channels) parts[((i64)blockIdx.y * 2 + which) * s.channels + first + k] = total;
  }
}
// The sums of a channel over all parts, for threads y = 0; threads x along channels, threads y over parts.
__device__ __forceinline__ bool get_sums(const A* parts, const Columns& s, i64 c, A& a, A& b) {
  __shared__ A sums[2][32][33];
  a = b = 0;
  if (c < s.channels) {
#pragma unroll 8
    for (i64 k = threadIdx.y; k < s.num_parts; k += 32) {
      a += parts[k * 2 * s.channels + c];
      b += parts[(k * 2 + 1) * s.channels + c];
    }
  }
  sums[0][threadIdx.y][threadIdx.x] = a;
  sums[1][threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0 || c >= s.channels) return false;
  for (int k = 1; k < 32; ++k) {
    a += sums[0][k][threadIdx.x];
    b += sums[1][k][threadIdx.x];
  }
  return true;
}

#pragma text kNormInferenceText
extern "C" __global__ void column_given(const T* x, const S* scale, const B* bias, const M* means,
                                        const V* vars, Y* y, Columns s, double eps) {
  const i64 c = channel_index();
  if (c >= s.channels) return;
  const bool aligned = is_aligned(x) && is_aligned(y);
  A gain[kPack], shift[kPack], mean[kPack], var[kPack];
  load_values(gain, scale + c);
  load_values(shift, bias + c);
  load_values(mean, means + c);
  load_values(var, vars + c);
#pragma unroll
  for (int v = 0; v < kPack; ++v) gain[v] = gain[v] / root_of(var[v] + (A)eps);
  each_row<1>(
      s, blockIdx.y, [&](i64 at) { return load_pack(x + at, aligned); },
      [&](const Packed& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v)
          out.v[v] = narrow<Y>(normed(widen(p.v[v]) - mean[v], gain[v], shift[v]));
        store_pack(y + at, out, aligned);
      });
}
