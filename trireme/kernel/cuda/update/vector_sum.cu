// Sums of f32 vectors in a given order of addition, four elements at a time.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

constexpr int kInputs = 2, kOutputs = 1;

#pragma text kVectorsText
struct alignas(16) Four {
  float v[4];
};
struct Vectors {
  const float* in[kInputs];
  float* out[kOutputs];
};
__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ Four add(Four a, Four b) {
  Four r;
  for (int k = 0; k < 4; ++k) r.v[k] = a.v[k] + b.v[k];
  return r;
}
template <class P>
__device__ __forceinline__ P load(const float* at, i64 i) {
  return ((const P*)at)[i];
}

#pragma text kLargerText
// A NaN wins, as on the host.
__device__ __forceinline__ float larger(float a, float b) { return a != a || a > b ? a : b; }
__device__ __forceinline__ Four larger(Four a, Four b) {
  Four r;
  for (int k = 0; k < 4; ++k) r.v[k] = larger(a.v[k], b.v[k]);
  return r;
}

#pragma text end
// Element i of the sum, which vector_sum.cc writes.
template <class P>
__device__ __forceinline__ P total(const Vectors& p, i64 i) {
  const P t0 = add(load<P>(p.in[0], i), load<P>(p.in[1], i));
  return t0;
}

#pragma text kSumVectorsText
template <class P>
__device__ __forceinline__ void one(const Vectors& p, i64 i) {
  const P v = total<P>(p, i);
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) ((P*)p.out[k])[i] = v;
}
extern "C" __global__ void sum_vectors(Vectors p, i64 begin, i64 end) {
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, packs = end / 4;
  for (i64 i = begin / 4 + first; i < packs; i += grid_step()) one<Four>(p, i);
  const i64 rest = packs * 4 + first;
  if (rest < end) one<float>(p, rest);
}
