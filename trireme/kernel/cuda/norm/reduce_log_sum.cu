// The fold of logsumexp.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

typedef float Out;

#pragma text kLogSumText
// top is the largest so far (NaN wins), sum that of exp(v - top) where top is finite.
struct State {
  A top, sum;
};
__device__ __forceinline__ State first() { return {-inf(), 0}; }
__device__ __forceinline__ State take(State s, A v, i64) {
  if (v != v || s.top != s.top) return {v + s.top, 0};
  if (v > s.top) return {v, s.sum * exp_of(s.top - v) + 1};
  if (v > -inf()) s.sum += exp_of(v - s.top);
  return s;
}
__device__ __forceinline__ State join(State a, State b) {
  const A top = b.top > a.top || b.top != b.top ? b.top : a.top;
  if (!is_finite(top)) return {top, 0};
  return {top, a.sum * exp_of(a.top - top) + b.sum * exp_of(b.top - top)};
}
__device__ __forceinline__ Out last(State s, i64) {
  return narrow<Out>(is_finite(s.top) ? s.top + log_of(s.sum) : s.top);
}
