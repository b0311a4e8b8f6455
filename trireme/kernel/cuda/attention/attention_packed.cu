// attention_qkv and its gradient, a block per query or per key.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
typedef float A;
constexpr int THREADS = 128;

#pragma text kAttentionPackedText
// T: the operands, A: what is computed in. Tokens are far apart: rows of qkv have 3 H D elements.
__device__ __forceinline__ float exp_of(float v) { return expf(v); }
__device__ __forceinline__ double exp_of(double v) { return exp(v); }
__device__ __forceinline__ float log_of(float v) { return logf(v); }
__device__ __forceinline__ double log_of(double v) { return log(v); }

struct Sizes {
  i64 tokens, heads, depth;
  A scale, infinity;
  bool causal;
};

// The head and token of this block.
struct Place {
  i64 sample, head, token;
  __device__ Place(const Sizes& s)
      : sample(blockIdx.x / s.tokens / s.heads),
        head(blockIdx.x / s.tokens % s.heads),
        token(blockIdx.x % s.tokens) {}
  // Where token t of this head is among rows of `parts` times H D elements.
  __device__ i64 at(const Sizes& s, i64 t, i64 part, i64 parts) const {
    return (((sample * s.tokens + t) * parts + part) * s.heads + head) * s.depth;
  }
};

__device__ A dot(const T* a, const T* b, i64 n) {
  A total = 0;
  for (i64 d = 0; d < n; ++d) total += load_acc(a[d]) * load_acc(b[d]);
  return total;
}

extern "C" __global__ void attend(const T* qkv, T* y, float* stats, Sizes s) {
  __shared__ A shares[THREADS];
  const Place p(s);
  const i64 keys = s.causal ? p.token + 1 : s.tokens;
  const T* q = qkv + p.at(s, p.token, 0, 3);
  A top = -s.infinity, total = 0;
  for (i64 j = threadIdx.x; j < keys; j += THREADS) {
    const A score = s.scale * dot(q, qkv + p.at(s, j, 1, 3), s.depth);
    if (score > top) {
      total = total * exp_of(top - score) + 1;
      top = score;
    } else {
      total += exp_of(score - top);
    }
  }
  const A highest = block_max(top);
  total = block_sum(total * exp_of(top - highest));
  const A stat = highest + log_of(total);
  if (threadIdx.x == 0) stats[blockIdx.x] = (float)stat;
  for (i64 first = 0; first < s.depth; first += THREADS) {
    const i64 d = first + threadIdx.x;
    A sum = 0;
    for (i64 j0 = 0; j0 < keys; j0 += THREADS) {
      const i64 j = j0 + threadIdx.x, n = keys - j0 < THREADS ? keys - j0 : THREADS;
      if (j < keys) shares[threadIdx.x] = exp_of(s.scale * dot(q, qkv + p.at(s, j, 1, 3), s.depth) - stat);
      __syncthreads();
      if (d < s.depth)
        for (i64 k = 0; k < n; ++k) sum += shares[k] * load_acc(qkv[p.at(s, j0 + k, 2, 3) + d]);
      __syncthreads();
    }
    if (d < s.depth) y[p.at(s, p.token, 0, 1) + d] = store_acc<T>(sum);
  }
}

// Share of key j in query i, and the gradient of their score.
__device__ void pair(const T* qkv, const T* y, const float* stats, const T* dy, const Sizes& s,
                     const Place& p, i64 i, i64 j, A& share, A& grad) {
  const i64 row = p.at(s, i, 0, 1);
  const A score = s.scale * dot(qkv + p.at(s, i, 0, 3), qkv + p.at(s, j, 1, 3), s.depth);
  share = exp_of(score - stats[(p.sample * s.heads + p.head) * s.tokens + i]);
  grad = share * (dot(dy + row, qkv + p.at(s, j, 2, 3), s.depth) - dot(dy + row, y + row, s.depth)) * s.scale;
}

extern "C" __global__ void query_grads(const T* qkv, const T* y, const float* stats, const T* dy, T* dqkv,
                                       Sizes s) {
  __shared__ A grads[THREADS];
  const Place p(s);
  const i64 keys = s.causal ? p.token + 1 : s.tokens;
  for (i64 first = 0; first < s.depth; first += THREADS) {
    const i64 d = first + threadIdx.x;
    A sum = 0;
    for (i64 j0 = 0; j0 < keys; j0 += THREADS) {
      const i64 j = j0 + threadIdx.x, n = keys - j0 < THREADS ? keys - j0 : THREADS;
      A share;
      if (j < keys) pair(qkv, y, stats, dy, s, p, p.token, j, share, grads[threadIdx.x]);
      __syncthreads();
      if (d < s.depth)
        for (i64 k = 0; k < n; ++k) sum += grads[k] * load_acc(qkv[p.at(s, j0 + k, 1, 3) + d]);
      __syncthreads();
    }
    if (d < s.depth) dqkv[p.at(s, p.token, 0, 3) + d] = store_acc<T>(sum);
  }
}

// Gradients of the key and the value of a token, over the queries that see it.
extern "C" __global__ void key_grads(const T* qkv, const T* y, const float* stats, const T* dy, T* dqkv,
                                     Sizes s) {
  __shared__ A shares[THREADS], grads[THREADS];
  const Place p(s);
  for (i64 first = 0; first < s.depth; first += THREADS) {
    const i64 d = first + threadIdx.x;
    A dk = 0, dv = 0;
    for (i64 i0 = s.causal ? p.token : 0; i0 < s.tokens; i0 += THREADS) {
      const i64 i = i0 + threadIdx.x, n = s.tokens - i0 < THREADS ? s.tokens - i0 : THREADS;
      if (i < s.tokens) pair(qkv, y, stats, dy, s, p, i, p.token, shares[threadIdx.x], grads[threadIdx.x]);
      __syncthreads();
      if (d < s.depth)
        for (i64 k = 0; k < n; ++k) {
          dk += grads[k] * load_acc(qkv[p.at(s, i0 + k, 0, 3) + d]);
          dv += shares[k] * load_acc(dy[p.at(s, i0 + k, 0, 1) + d]);
        }
      __syncthreads();
    }
    if (d < s.depth) {
      dqkv[p.at(s, p.token, 1, 3) + d] = store_acc<T>(dk);
      dqkv[p.at(s, p.token, 2, 3) + d] = store_acc<T>(dv);
    }
  }
}
