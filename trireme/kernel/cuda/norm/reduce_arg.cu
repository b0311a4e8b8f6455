// The fold of argmax and argmin.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

typedef i64 Out;
constexpr bool kLargest = true;

#pragma text kArgText
// The best so far: the first of ties, the first NaN if any. at < 0: nothing yet.
struct State {
  A v;
  i64 at;
};
__device__ __forceinline__ State first() { return {0, -1}; }
__device__ __forceinline__ State join(State a, State b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool a_nan = a.v != a.v, b_nan = b.v != b.v;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && a.v != b.v) return (kLargest ? b.v > a.v : b.v < a.v) ? b : a;
  return b.at < a.at ? b : a;
}
__device__ __forceinline__ State take(State s, A v, i64 at) { return join(s, {v, at}); }
__device__ __forceinline__ Out last(State s, i64) { return s.at; }
