#include "trireme/kernel/cuda/update/update_text.h"

namespace trireme::kernel::cuda {

const char* const kNumberText = R"cuda(
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
)cuda";

// The text of an op gives: kReads, struct Factors, factors(s, rate, step, extra), and
// move(w, states, g, factors), which changes w and the states.
const char* const kStepText = R"cuda(
struct Pointers { T* at[5]; };  // param, states, grad; null: unused
__device__ __forceinline__ Factors shared_factors(const Rate* lr, const i64* count, const A* extra, const Scalars& s) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) {
    const double rate = kHasRate ? (double)load_acc(*lr) : 0;
    i64 t = kHasStep ? *count : 1;
    if (t < 1) t = 1;
    shared = factors(s, rate, t, extra);
  }
  __syncthreads();
  return shared;
}
__device__ __forceinline__ void load_all(const Pointers& to, i64 i, Packed* p) {
#pragma unroll
  for (int j = 0; j < 5; ++j)
    if (kUsed & 1 << j) p[j] = load_pack(to.at[j] + i, true);
}
// Elements `first`, `first + stride`... counted in packs.
__device__ __forceinline__ void move_all(const Pointers& to, const Factors& f, i64 n, i64 first, i64 stride) {
  bool aligned = true;
#pragma unroll
  for (int k = 0; k < 5; ++k) aligned = aligned && is_aligned(to.at[k]);
  // Without alignment, and behind the last whole pack, element by element.
  const i64 packs = aligned ? n / kPack : 0;
  // The next packs are on their way while these are worked on.
  Packed next[5];
  if (first < packs) load_all(to, first * kPack, next);
  for (i64 k = first; k < packs; k += stride) {
    const i64 i = k * kPack;
    Packed p[5];
#pragma unroll
    for (int j = 0; j < 5; ++j)
      if (kUsed & 1 << j) p[j] = next[j];
    if (k + stride < packs) load_all(to, (k + stride) * kPack, next);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      Number w = load_acc(p[0].v[v]), state[3];
#pragma unroll
      for (int j = 1; j < 4; ++j)
        if (kUsed & 1 << j) state[j - 1] = load_acc(p[j].v[v]);
      move(w, state, load_acc(p[4].v[v]), f);
      p[0].v[v] = store_acc<T>(w.v);
#pragma unroll
      for (int j = 1; j < 4; ++j)
        if (kUsed & 1 << j) p[j].v[v] = store_acc<T>(state[j - 1].v);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (kUsed & 1 << j) store_pack(to.at[j] + i, p[j], true);
  }
  for (i64 i = packs * kPack + first; i < n; i += stride) {
    Number w = load_acc(to.at[0][i]), state[3];
#pragma unroll
    for (int j = 1; j < 4; ++j)
      if (kUsed & 1 << j) state[j - 1] = load_acc(to.at[j][i]);
    move(w, state, load_acc(to.at[4][i]), f);
    to.at[0][i] = store_acc<T>(w.v);
#pragma unroll
    for (int j = 1; j < 4; ++j)
      if (kUsed & 1 << j) to.at[j][i] = store_acc<T>(state[j - 1].v);
  }
}
extern "C" __global__ void __launch_bounds__(256)
    step(const Pointers to, const Rate* lr, const i64* count, const A* extra, const Scalars s, i64 n) {
  move_all(to, shared_factors(lr, count, extra, s), n, first_index(), grid_step());
}
// Several tensors in one launch: blocks first[i]... before first[i + 1] have tensor i.
struct Many { Pointers to[40]; i64 n[40]; u32 first[41]; };
extern "C" __global__ void __launch_bounds__(256)
    steps(const __grid_constant__ Many many, const Rate* lr, const i64* count, const Scalars s) {
  int i = 0;
  while (blockIdx.x >= many.first[i + 1]) ++i;
  const u32 own = blockIdx.x - many.first[i], blocks = many.first[i + 1] - many.first[i];
  move_all(many.to[i], shared_factors(lr, count, nullptr, s), many.n[i], (i64)own * blockDim.x + threadIdx.x,
           (i64)blocks * blockDim.x);
}
)cuda";

// Scalars: weight_decay.
const char* const kSgdText = R"cuda(
struct Factors { A lr, decay; };
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) { return {(A)rate, (A)s.v[0]}; }
__device__ __forceinline__ void move(Number& w, Number*, Number g, const Factors& f) {
  w = w - Number(f.lr) * (kDecays ? g + Number(f.decay) * w : g);
}
)cuda";

// Scalars: weight_decay, momentum, 1 - dampening.
const char* const kMomentumText = R"cuda(
struct Factors { A lr, decay, momentum, undamped; };
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) {
  return {(A)rate, (A)s.v[0], (A)s.v[1], (A)s.v[2]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  const Number lr = f.lr, momentum = f.momentum;
  if (kDecays) g = g + Number(f.decay) * w;
  if (kRateInside) g = g * lr;
  const Number v = momentum * state[0] + (kDampens ? Number(f.undamped) * g : g);
  state[0] = v;
  const Number along = kNesterov ? g + momentum * v : v;
  w = kRateInside ? w - along : w - lr * along;
}
)cuda";

// Scalars: weight_decay, eps, lr_decay.
const char* const kAdagradText = R"cuda(
struct Factors { A lr, decay, eps; };
__device__ Factors factors(const Scalars& s, double rate, i64 t, const A*) {
  return {(A)(rate / __dadd_rn(1, __dmul_rn((double)(t - 1), s.v[2]))), (A)s.v[0], (A)s.v[1]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  if (kDecays) g = g + Number(f.decay) * w;
  const Number sum = state[0] + g * g, eps = f.eps;
  state[0] = sum;
  w = w - Number(f.lr) * (g / (kEpsInside ? root(sum + eps) : root(sum) + eps));
}
)cuda";

// Scalars: weight_decay, eps, alpha, 1 - alpha, momentum.
const char* const kRmspropText = R"cuda(
struct Factors { A lr, decay, eps, alpha, rest, momentum; };
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) {
  return {(A)rate, (A)s.v[0], (A)s.v[1], (A)s.v[2], (A)s.v[3], (A)s.v[4]};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  const Number lr = f.lr, rest = f.rest, eps = f.eps;
  if (kDecays) g = g + Number(f.decay) * w;
  Number square = Number(f.alpha) * state[0] + rest * g * g;
  state[0] = square;
  if (kCentered) {
    const Number mean = state[1] + rest * (g - state[1]);
    state[1] = mean;
    square = largest(square - mean * mean, Number((A)0));
  }
  Number along = g / (kEpsInside ? root(square + eps) : root(square) + eps);
  if (kHasMomentum) {
    if (kRateInside) along = along * lr;
    along = Number(f.momentum) * state[2] + along;
    state[2] = along;
  }
  w = kHasMomentum && kRateInside ? w - along : w - lr * along;
}
)cuda";

// Scalars: beta1, beta2, eps, weight_decay (adam) or decay of the parameter (adamw), fixed_after.
const char* const kAdamText = R"cuda(
struct Factors { A lr, rest1, keep2, rest2, root_bias, eps, decay, kept; };
__device__ Factors factors(const Scalars& s, double rate, i64 t, const A*) {
  const double first = kCorrects ? 1 - pow(s.v[0], (double)t) : 1;
  const bool fixed = s.v[4] > 0 && (double)t > s.v[4];
  const double root2 = kCorrects ? sqrt(1 - pow(s.v[1], fixed ? s.v[4] : (double)t)) : 1;
  const double keep2 = fixed ? 1 : s.v[1];
  const double kept = __dadd_rn(1, -__dmul_rn(kDecayByRate ? rate : 1, s.v[3]));
  return {(A)(rate / first * (kEpsHat ? root2 : 1)), (A)(1 - s.v[0]), (A)keep2, (A)(1 - keep2), (A)root2,
          (A)s.v[2], (A)s.v[3], (A)kept};
}
__device__ __forceinline__ void move(Number& w, Number* state, Number g, const Factors& f) {
  if (kShrinks) w = w * Number(f.kept);  // by exactly 1 where nothing decays
  if (kDecays) g = g + Number(f.decay) * w;
  const Number moment1 = state[0] + Number(f.rest1) * (g - state[0]);
  Number moment2 = Number(f.keep2) * state[1] + Number(f.rest2) * g * g;
  state[0] = moment1;
  state[1] = moment2;
  if (kAmsgrad) state[2] = moment2 = largest(state[2], moment2);
  Number scale = root(moment2);
  if (!kEpsHat) scale = scale / Number(f.root_bias);
  w = w - Number(f.lr) * (moment1 / (scale + Number(f.eps)));
}
)cuda";

// Scalars: momentum. extra: the count, in T; with it the variance becomes unbiased.
const char* const kRunningText = R"cuda(
struct Factors { A keep, gain; };
__device__ Factors factors(const Scalars& s, double, i64, const A* extra) {
  double unbiased = 1;
  if (kUnbiased) {
    const double n = (double)load_acc(*reinterpret_cast<const T*>(extra));
    if (n >= 2 && n - n == 0) unbiased = n / (n - 1);
  }
  return {(A)(1 - s.v[0]), (A)__dmul_rn(s.v[0], unbiased)};
}
__device__ __forceinline__ void move(Number& w, Number*, Number g, const Factors& f) {
  w = Number(f.keep) * w + Number(f.gain) * g;
}
)cuda";

// Scalars: weight_decay, momentum, trust, eps. extra: sums of squares of w and of g over the tensor.
const char* const kLarsText = R"cuda(
struct Factors { A rate, decay, momentum; };
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
)cuda";

}  // namespace trireme::kernel::cuda
