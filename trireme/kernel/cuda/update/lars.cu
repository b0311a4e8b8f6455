// apply_lars. Scalars: weight_decay, momentum, trust, eps. extra: sums of squares of w and of g over the
// tensor.
#pragma once

#include "trireme/kernel/cuda/update/number.cu"

struct Scalars {
  double v[5];
};
constexpr bool kDecays = true;

#pragma text kLarsText
struct Factors {
  A rate, decay, momentum;
};
__device__ Factors factors(const Scalars& s, double rate, i64, const A* extra) {
  const double weights = sqrt((double)extra[0]), grads = sqrt((double)extra[1]);
  const double below = __dadd_rn(__dadd_rn(grads, __dmul_rn(s.v[0], weights)), s.v[3]);
  const double local = weights == 0 || grads == 0 ? 1 : s.v[2] * weights / below;
  return {(A)(rate * local), (A)s.v[0], (A)s.v[1]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  if (kDecays) g = g + Number(f.decay) * w;
  const Number v = Number(f.momentum) * state[0] + Number(f.rate) * g;
  state[0] = v;
  w = w - v;
}
// parts: [blocks][2]; then one block adds them.
extern "C" __global__ void squares(const T* w, const T* g, A* parts, i64 n) {
  A weights = 0, grads = 0;
  for (i64 i = first_index(); i < n; i += grid_step()) {
    const A a = load_acc(w[i]), b = load_acc(g[i]);
    weights += a * a;
    grads += b * b;
  }
  weights = block_sum(weights);
  grads = block_sum(grads);
  if (threadIdx.x != 0) return;
  parts[2 * blockIdx.x] = weights;
  parts[2 * blockIdx.x + 1] = grads;
}
extern "C" __global__ void add_squares(const A* parts, A* sums, i64 num_parts) {
  A weights = 0, grads = 0;
  for (i64 k = threadIdx.x; k < num_parts; k += blockDim.x) {
    weights += parts[2 * k];
    grads += parts[2 * k + 1];
  }
  weights = block_sum(weights);
  grads = block_sum(grads);
  if (threadIdx.x == 0) {
    sums[0] = weights;
    sums[1] = grads;
  }
}
