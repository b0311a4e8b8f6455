// Numbers that round after every operation.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

#pragma text kNumberText
__device__ __forceinline__ float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float add_rn(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double mul_rn(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double add_rn(double a, double b) { return __dadd_rn(a, b); }
struct Number {
  A v;
  Number() = default;
  __device__ __forceinline__ Number(A a) : v(a) {}
};
__device__ __forceinline__ Number operator*(Number a, Number b) { return mul_rn(a.v, b.v); }
__device__ __forceinline__ Number operator+(Number a, Number b) { return add_rn(a.v, b.v); }
__device__ __forceinline__ Number operator-(Number a, Number b) { return add_rn(a.v, -b.v); }
__device__ __forceinline__ Number operator/(Number a, Number b) { return a.v / b.v; }
__device__ __forceinline__ Number root(Number a) { return root_of(a.v); }
__device__ __forceinline__ Number largest(Number a, Number b) { return a.v < b.v ? b : a; }  // std::max
