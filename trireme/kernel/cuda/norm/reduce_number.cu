// A fold whose state is one number.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

typedef float Out;

#pragma text kNumberFoldText
__device__ u64 wrap(i64 v) { return v; }
__device__ u64 wrap(i32 v) { return (i64)v; }
__device__ u64 wrap(u8 v) { return v; }
__device__ float wrap(float v) { return v; }
__device__ double wrap(double v) { return v; }
__device__ void ends(i64& low, i64& high) {
  high = 0x7fffffffffffffffll;
  low = -high - 1;
}
__device__ void ends(i32& low, i32& high) {
  high = 0x7fffffff;
  low = -high - 1;
}
__device__ void ends(u8& low, u8& high) {
  low = 0;
  high = 255;
}
__device__ void ends(float& low, float& high) {
  high = __int_as_float(0x7f800000);
  low = -high;
}
__device__ void ends(double& low, double& high) {
  high = __int_as_float(0x7f800000);
  low = -high;
}
__device__ A lowest() {
  A low, high;
  ends(low, high);
  return low;
}
__device__ A highest() {
  A low, high;
  ends(low, high);
  return high;
}
using State = A;
__device__ __forceinline__ State join(State a, State b);
__device__ __forceinline__ State take(State s, A v, i64) { return join(s, v); }
