// What every batch norm does with an element.
#pragma once

#include "trireme/kernel/cuda/norm/norm_types.cu"
#include "trireme/kernel/cuda/norm/packs.cu"

constexpr bool kRelu = true, kResidual = true, kFromY = true, kTwo = true;

#pragma text kNormElementText
// What every batch norm does with an element. y is computed again, to the bit, where a gradient asks for its
// sign.
__device__ __forceinline__ float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fma_of(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ A normed(A off, A gain, A shift) { return fma_of(off, gain, shift); }
template <class E>
__device__ __forceinline__ A gain_of(A var, E scale, double eps) {
  return widen(scale) / root_of(var + (A)eps);
}
__device__ __forceinline__ A relu_of(A v) { return v < 0 ? (A)0 : v; }
