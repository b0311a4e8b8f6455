// The loops around an optimiser's step, which comes before them.
#pragma once

#include "trireme/kernel/cuda/update/sgd.cu"

typedef float Rate;
constexpr int kUsed = 17;  // bits of Pointers
constexpr bool kHasRate = true, kHasStep = false;

#pragma text kStepText
// The text of an op gives: kReads, struct Factors, factors(s, rate, step, extra), and
// move(w, states, g, factors), which changes w and the states.
struct Pointers {
  T* at[5];
};  // param, states, grad; null: unused
__device__ __forceinline__ Factors shared_factors(const Rate* lr, const i64* count, const A* extra,
                                                  const Scalars& s) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) {
    const double rate = kHasRate ? (double)load_acc(*lr) : 0;
    i64 t = kHasStep ? *count : 1;
    if (t < 1) t = 1;
    shared = factors(s, rate, t, extra);
  }
  __syncthreads();
  return shared;
}
__device__ __forceinline__ void load_all(const Pointers& to, i64 i, Packed* p) {
#pragma unroll
  for (int j = 0; j < 5; ++j)
    if (kUsed & 1 << j) p[j] = load_pack(to.at[j] + i, true);
}
// Elements `first`, `first + stride`... counted in packs.
__device__ __forceinline__ void move_all(const Pointers& to, const Factors& f, i64 n, i64 first, i64 stride) {
  bool aligned = true;
#pragma unroll
  for (int k = 0; k < 5; ++k) aligned = aligned && is_aligned(to.at[k]);
  // Without alignment, and behind the last whole pack, element by element.
  const i64 packs = aligned ? n / kPack : 0;
  // The next packs are on their way while these are worked on.
  Packed next[5];
  if (first < packs) load_all(to, first * kPack, next);
  for (i64 k = first; k < packs; k += stride) {
    const i64 i = k * kPack;
    Packed p[5];
#pragma unroll
    for (int j = 0; j < 5; ++j)
      if (kUsed & 1 << j) p[j] = next[j];
    if (k + stride < packs) load_all(to, (k + stride) * kPack, next);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      Number w = load_acc(p[0].v[v]), state[3];
#pragma unroll
      for (int j = 1; j < 4; ++j)
        if (kUsed & 1 << j) state[j - 1] = load_acc(p[j].v[v]);
      move(w, state, load_acc(p[4].v[v]), f);
      p[0].v[v] = store_acc<T>(w.v);
#pragma unroll
      for (int j = 1; j < 4; ++j)
        if (kUsed & 1 << j) p[j].v[v] = store_acc<T>(state[j - 1].v);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (kUsed & 1 << j) store_pack(to.at[j] + i, p[j], true);
  }
  for (i64 i = packs * kPack + first; i < n; i += stride) {
    Number w = load_acc(to.at[0][i]), state[3];
#pragma unroll
    for (int j = 1; j < 4; ++j)
      if (kUsed & 1 << j) state[j - 1] = load_acc(to.at[j][i]);
    move(w, state, load_acc(to.at[4][i]), f);
    to.at[0][i] = store_acc<T>(w.v);
#pragma unroll
    for (int j = 1; j < 4; ++j)
      if (kUsed & 1 << j) to.at[j][i] = store_acc<T>(state[j - 1].v);
  }
}
extern "C" __global__ void __launch_bounds__(256)
    step(const Pointers to, const Rate* lr, const i64* count, const A* extra, const Scalars s, i64 n) {
  move_all(to, shared_factors(lr, count, extra, s), n, first_index(), grid_step());
}
// Several tensors in one launch: blocks first[i]... before first[i + 1] have tensor i.
struct Many {
  Pointers to[40];
  i64 n[40];
  u32 first[41];
};
extern "C" __global__ void __launch_bounds__(256)
    steps(const __grid_constant__ Many many, const Rate* lr, const i64* count, const Scalars s) {
  int i = 0;
  while (blockIdx.x >= many.first[i + 1]) ++i;
  const u32 own = blockIdx.x - many.first[i], blocks = many.first[i + 1] - many.first[i];
  move_all(many.to[i], shared_factors(lr, count, nullptr, s), many.n[i], (i64)own * blockDim.x + threadIdx.x,
           (i64)blocks * blockDim.x);
}
