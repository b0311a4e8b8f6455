// The text that comes before every other: element types, conversions, reductions, Philox.
#pragma once

#pragma text kPreludeText
// 16-bit types hold values; arithmetic happens in float. Reductions have one fixed shape: lanes by halves,
// then warps in order, so the bits depend on the block size alone.
typedef long long i64;
typedef int i32;
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct bf16 {
  u16 bits;
};
struct half {
  u16 bits;
};

__device__ __forceinline__ float to_f(float v) { return v; }
__device__ __forceinline__ float to_f(double v) { return (float)v; }
__device__ __forceinline__ float to_f(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
__device__ __forceinline__ float to_f(half v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
__device__ __forceinline__ float to_f(i64 v) { return (float)v; }
__device__ __forceinline__ float to_f(i32 v) { return (float)v; }
__device__ __forceinline__ float to_f(u8 v) { return (float)v; }
__device__ __forceinline__ float to_f(bool v) { return v ? 1.0f : 0.0f; }

template <class T>
__device__ __forceinline__ T from_f(float v) {
  return (T)v;
}
template <>
__device__ __forceinline__ bf16 from_f<bf16>(float v) {
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
}
template <>
__device__ __forceinline__ half from_f<half>(float v) {
  half r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
}

template <class T>
struct Acc {
  typedef T type;
};
template <>
struct Acc<bf16> {
  typedef float type;
};
template <>
struct Acc<half> {
  typedef float type;
};
template <class T>
using acc_t = typename Acc<T>::type;
template <class T>
__device__ __forceinline__ acc_t<T> load_acc(T v) {
  return v;
}
__device__ __forceinline__ float load_acc(bf16 v) { return to_f(v); }
__device__ __forceinline__ float load_acc(half v) { return to_f(v); }
template <class T>
__device__ __forceinline__ T store_acc(acc_t<T> v) {
  return v;
}
template <>
__device__ __forceinline__ bf16 store_acc<bf16>(float v) {
  return from_f<bf16>(v);
}
template <>
__device__ __forceinline__ half store_acc<half>(float v) {
  return from_f<half>(v);
}

struct Index8 {
  i64 v[8];
};
// N elements moved at once, 16 bytes where sizeof(T) * N is 16.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

__device__ __forceinline__ i64 first_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 grid_step() { return (i64)gridDim.x * blockDim.x; }

struct Sum {
  template <class T>
  __device__ static T of(T a, T b) {
    return a + b;
  }
};
// A NaN wins.
struct Max {
  template <class T>
  __device__ static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

template <class Op, class T>
__device__ __forceinline__ T warp_reduce(T v) {
#pragma unroll
  for (int k = 16; k > 0; k >>= 1) v = Op::of(v, __shfl_xor_sync(0xffffffffu, v, k));
  return v;
}
// blockDim.x (times y, z) is a multiple of 32, at most 1024. All threads call it; all get the result.
template <class Op, class T>
__device__ __forceinline__ T block_reduce(T v) {
  __shared__ T parts[33];
  const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  v = warp_reduce<Op>(v);
  __syncthreads();  // the call before may still read parts
  if ((t & 31) == 0) parts[t >> 5] = v;
  __syncthreads();
  T r = parts[0];
  for (int i = 1; i < warps; ++i) r = Op::of(r, parts[i]);
  return r;
}
template <class T>
__device__ __forceinline__ T warp_sum(T v) {
  return warp_reduce<Sum>(v);
}
template <class T>
__device__ __forceinline__ T warp_max(T v) {
  return warp_reduce<Max>(v);
}
template <class T>
__device__ __forceinline__ T block_sum(T v) {
  return block_reduce<Sum>(v);
}
template <class T>
__device__ __forceinline__ T block_max(T v) {
  return block_reduce<Max>(v);
}

// Philox4x32-10, the numbers of base/rng.h.
struct Philox4 {
  u32 x, y, z, w;
};
__device__ __forceinline__ Philox4 philox(u64 key, u32 c0, u32 c1, u32 c2, u32 c3) {
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
  for (int r = 0; r < 10; ++r) {
    const u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    const u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Philox4 r = {c0, c1, c2, c3};
  return r;
}
__device__ __forceinline__ float to_uniform(u32 bits) { return (float)(bits >> 8) * 5.9604644775390625e-8f; }
