// Packs of kPack elements: loads and stores, element by element where the memory is not aligned; widen to A,
// narrow from it; functions of float and double.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

using T = float;
using A = acc_t<T>;
constexpr int kPack = 4;

#pragma text kPackText
using Packed = Pack<T, kPack>;
template <class E>
__device__ __forceinline__ bool is_aligned(const E* p) {
  return (u64)p % sizeof(Pack<E, kPack>) == 0;
}
// Loops that must have several loads in flight settle the alignment before them: a template argument.
template <bool kAligned, class E>
__device__ __forceinline__ Pack<E, kPack> load_pack(const E* p) {
  if constexpr (kAligned) return *reinterpret_cast<const Pack<E, kPack>*>(p);
  Pack<E, kPack> r;
#pragma unroll
  for (int v = 0; v < kPack; ++v) r.v[v] = p[v];
  return r;
}
template <bool kAligned, class E>
__device__ __forceinline__ void store_pack(E* p, const Pack<E, kPack>& r) {
  if constexpr (kAligned) {
    *reinterpret_cast<Pack<E, kPack>*>(p) = r;
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) p[v] = r.v[v];
  }
}
template <class E>
__device__ __forceinline__ Pack<E, kPack> load_pack(const E* p, bool aligned) {
  return aligned ? load_pack<true>(p) : load_pack<false>(p);
}
template <class E>
__device__ __forceinline__ void store_pack(E* p, const Pack<E, kPack>& r, bool aligned) {
  if (aligned)
    store_pack<true>(p, r);
  else
    store_pack<false>(p, r);
}
template <class E>
__device__ __forceinline__ A widen(E v) {
  return (A)load_acc(v);
}
template <class E>
__device__ __forceinline__ E narrow(A v) {
  return store_acc<E>((acc_t<E>)v);
}

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
