// Whether numbers are finite, and the scale of the loss.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

#pragma text kFiniteText
// Blocks y over tensors. Whoever finds something clears the answer: the same byte from everybody.
struct Tensors {
  const T* data[128];
  i64 size[128];
};
__device__ __forceinline__ bool is_bad(T v) {
  const A a = load_acc(v);
  return !(a - a == 0);
}
extern "C" __global__ void set_true(u8* answer) { *answer = 1; }
extern "C" __global__ void find_infinite(const Tensors tensors, u8* answer) {
  const T* x = tensors.data[blockIdx.y];
  const i64 n = tensors.size[blockIdx.y], packs = is_aligned(x) ? n / kPack : 0;
  bool bad = false;
#pragma unroll 4
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const Packed p = load_pack(x + k * kPack, true);
#pragma unroll
    for (int v = 0; v < kPack; ++v) bad |= is_bad(p.v[v]);
  }
  for (i64 i = packs * kPack + first_index(); i < n; i += grid_step()) bad |= is_bad(x[i]);
  if (bad) *answer = 0;
}

#pragma text kScaleText
extern "C" __global__ void scale_step(T* scale, i64* good_steps, const u8* finite, double growth,
                                      double backoff, i64 interval) {
  const bool good = *finite != 0;
  if (good) {
    const i64 steps = *good_steps + 1;
    *good_steps = steps;
    if (steps < interval) return;
  }
  *good_steps = 0;
  const A next = load_acc(*scale) * (A)(good ? growth : backoff);
  if (next - next == 0) *scale = store_acc<T>(next);
}
