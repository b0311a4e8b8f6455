// Ops that write variables: optimiser steps, running averages, assign, assign_add.
//
// Values are those of the references, to the bit where they are sums, products, quotients and roots: the
// text's Number rounds after every operation (no fused multiply-add), in the order of op/update. Factors that
// depend on lr and the step are formed in f64 by one thread of a block, so that captured launches follow
// them.
#include <fmt/format.h>

#include <array>

#include "trireme/kernel/cuda/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostBlocks = 1056;  // eight per multiprocessor of the GPUs that this is made for
constexpr int kMaxStates = 3;

// ---- Texts
// ----------------------------------------------------------------------------------------------------

constexpr const char* kNumberText = R"cuda(
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
constexpr const char* kStepText = R"cuda(
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
// Elements `first`, `first + stride`... counted in packs.
__device__ __forceinline__ void move_all(const Pointers& to, const Factors& f, i64 n, i64 first, i64 stride) {
  bool aligned = true;
#pragma unroll
  for (int k = 0; k < 5; ++k) aligned = aligned && is_aligned(to.at[k]);
  // Without alignment, and behind the last whole pack, element by element.
  const i64 packs = aligned ? n / kPack : 0;
  for (i64 k = first; k < packs; k += stride) {
    const i64 i = k * kPack;
    Packed p[5];
#pragma unroll
    for (int j = 0; j < 5; ++j)
      if (kUsed & 1 << j) p[j] = load_pack(to.at[j] + i, true);
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
constexpr const char* kSgdText = R"cuda(
struct Factors { A lr, decay; };
__device__ Factors factors(const Scalars& s, double rate, i64, const A*) { return {(A)rate, (A)s.v[0]}; }
__device__ __forceinline__ void move(Number& w, Number*, Number g, const Factors& f) {
  w = w - Number(f.lr) * (kDecays ? g + Number(f.decay) * w : g);
}
)cuda";

// Scalars: weight_decay, momentum, 1 - dampening.
constexpr const char* kMomentumText = R"cuda(
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
constexpr const char* kAdagradText = R"cuda(
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
constexpr const char* kRmspropText = R"cuda(
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

// Scalars: beta1, beta2, eps, weight_decay (adam) or decay of the parameter (adamw).
constexpr const char* kAdamText = R"cuda(
struct Factors { A lr, rest1, keep2, rest2, root_bias, eps, decay, kept; };
__device__ Factors factors(const Scalars& s, double rate, i64 t, const A*) {
  const double first = kCorrects ? 1 - pow(s.v[0], (double)t) : 1;
  const double root2 = kCorrects ? sqrt(1 - pow(s.v[1], (double)t)) : 1;
  const double kept = __dadd_rn(1, -__dmul_rn(kDecayByRate ? rate : 1, s.v[3]));
  return {(A)(rate / first * (kEpsHat ? root2 : 1)), (A)(1 - s.v[0]), (A)s.v[1], (A)(1 - s.v[1]), (A)root2,
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
constexpr const char* kRunningText = R"cuda(
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
constexpr const char* kLarsText = R"cuda(
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

// ---- Making
// ---------------------------------------------------------------------------------------------------

struct Pointers {  // as in the text
  void* at[5] = {};
};
struct Scalars {
  double v[5] = {};
  friend bool operator==(const Scalars&, const Scalars&) = default;
};
constexpr int kMostTensors = 40;
struct Many {
  Pointers to[kMostTensors] = {};
  std::int64_t n[kMostTensors] = {};
  unsigned first[kMostTensors + 1] = {};
};

// Where the inputs of an op are; -1: not there.
struct Inputs {
  int states = 0, grad = 1, lr = -1, step = -1, extra = -1;
};

struct Step {
  const Function *f = nullptr, *many = nullptr;
  std::string text = {};
  Inputs in = {};
  Scalars scalars = {};
  bool used[kMaxStates] = {};
  std::int64_t n = 0;
  int pack = 1;

  Pointers pointers(const CudaArgs& a) const {
    Pointers to;
    to.at[0] = a.in(0).raw();
    to.at[4] = a.in(in.grad).raw();
    for (int k = 0; k < in.states; ++k)
      if (used[k]) to.at[k + 1] = a.in(k + 1).raw();
    return to;
  }
  void* lr(const CudaArgs& a) const { return in.lr < 0 ? nullptr : a.in(in.lr).raw(); }
  void* count(const CudaArgs& a) const { return in.step < 0 ? nullptr : a.in(in.step).raw(); }
  Status enqueue(const CudaArgs& a, void* extra) const {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, pack, kMostBlocks)}, {kThreads}, 0, pointers(a),
                  lr(a), count(a), extra, scalars, n);
  }
};

class StepKernel final : public CudaKernel {
 public:
  explicit StepKernel(Step step) : step_(std::move(step)) {}
  Status enqueue(const CudaArgs& a) const override {
    return step_.enqueue(a, step_.in.extra < 0 ? nullptr : a.in(step_.in.extra).raw());
  }
  // The same text, the same constants. Rates are looked at with the arguments.
  bool goes_with(const CudaKernel& other) const override {
    const auto* step = dynamic_cast<const StepKernel*>(&other);
    return step != nullptr && step_.in.extra < 0 && step->step_.f == step_.f &&
           step->step_.scalars == step_.scalars;
  }
  Status enqueue_all(std::span<const CudaKernel* const> kernels,
                     std::span<const CudaArgs> args) const override {
    constexpr int kPacks = 16;  // of every thread: factors take a block some microseconds
    Many many;
    int count = 0;
    const auto send = [&](const CudaArgs& a) -> Status {
      if (count == 0) return {};
      const unsigned blocks = many.first[count];
      for (int i = count; i < kMostTensors; ++i) many.first[i + 1] = blocks;
      count = 0;
      return launch(a.stream, *step_.many, {blocks}, {kThreads}, 0, many, step_.lr(args[0]),
                    step_.count(args[0]), step_.scalars);
    };
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const Step& step = static_cast<const StepKernel*>(kernels[i])->step_;
      if (step.n == 0) continue;
      if (step.lr(args[i]) != step_.lr(args[0]) || step.count(args[i]) != step_.count(args[0])) {
        TR_RETURN_IF_ERROR(step.enqueue(args[i], nullptr));
        continue;
      }
      many.to[count] = step.pointers(args[i]);
      many.n[count] = step.n;
      many.first[count + 1] =
          many.first[count] + blocks_for(step.n, kThreads, kPacks * step.pack, kMostBlocks);
      if (++count == kMostTensors) TR_RETURN_IF_ERROR(send(args[i]));
    }
    return kernels.empty() ? Status() : send(args.back());
  }

 private:
  Step step_;
};

Result<Step> make_step(const CudaQuery& q, const Inputs& in, const Scalars& scalars, std::string_view flags,
                       std::string_view body) {
  Step step{.in = in, .scalars = scalars, .n = q.inputs[0].shape.num_elems()};
  const DType dtype = q.inputs[0].dtype;
  step.pack = pack_width(dtype, 0);
  int used = 1 | 1 << 4;
  for (int k = 0; k < in.states; ++k) {
    step.used[k] = q.inputs[static_cast<std::size_t>(k) + 1].shape == q.inputs[0].shape;
    if (step.used[k]) used |= 2 << k;
  }
  const DType rate = in.lr < 0 ? DType::kF32 : q.inputs[static_cast<std::size_t>(in.lr)].dtype;
  const std::string head =
      fmt::format("using Rate = {};\nstruct Scalars {{ double v[5]; }};\n{}", cuda_type(rate), flags);
  step.text = typed_text(
      dtype, {{"kPack", step.pack}, {"kUsed", used}, {"kHasRate", in.lr >= 0}, {"kHasStep", in.step >= 0}},
      {head, pack_text(), kNumberText, body, kStepText});
  TR_ASSIGN_OR_RETURN(step.f, q.device.function(step.text, "step"));
  if (in.extra < 0) {
    TR_ASSIGN_OR_RETURN(step.many, q.device.function(step.text, "steps"));
  }
  return step;
}

Made made(Result<Step> step) {
  TR_RETURN_IF_ERROR(step.status());
  return std::unique_ptr<CudaKernel>(std::make_unique<StepKernel>(*std::move(step)));
}

std::string flag(const char* name, bool value) {
  return fmt::format("constexpr bool {} = {};\n", name, value);
}

}  // namespace

Made make_apply_sgd(const CudaQuery& q) {
  const double decay = q.attrs.get_float("weight_decay");
  return made(make_step(q, {.grad = 1, .lr = 2}, {{decay}}, flag("kDecays", decay != 0), kSgdText));
}

Made make_apply_momentum(const CudaQuery& q) {
  const double decay = q.attrs.get_float("weight_decay"), dampening = q.attrs.get_float("dampening");
  const std::string flags = flag("kDecays", decay != 0) + flag("kDampens", dampening != 0) +
                            flag("kNesterov", q.attrs.get_bool("nesterov")) +
                            flag("kRateInside", q.attrs.get_bool("rate_inside"));
  const Scalars scalars{{decay, q.attrs.get_float("momentum"), 1 - dampening}};
  return made(make_step(q, {.states = 1, .grad = 2, .lr = 3}, scalars, flags, kMomentumText));
}

Made make_apply_adagrad(const CudaQuery& q) {
  const double decay = q.attrs.get_float("weight_decay");
  const std::string flags = flag("kDecays", decay != 0) + flag("kEpsInside", q.attrs.get_bool("eps_inside"));
  const Scalars scalars{{decay, q.attrs.get_float("eps"), q.attrs.get_float("lr_decay")}};
  return made(make_step(q, {.states = 1, .grad = 2, .lr = 3, .step = 4}, scalars, flags, kAdagradText));
}

Made make_apply_rmsprop(const CudaQuery& q) {
  const double decay = q.attrs.get_float("weight_decay"), momentum = q.attrs.get_float("momentum");
  const double alpha = q.attrs.get_float("alpha");
  const std::string flags = flag("kDecays", decay != 0) + flag("kHasMomentum", momentum != 0) +
                            flag("kCentered", q.attrs.get_bool("centered")) +
                            flag("kEpsInside", q.attrs.get_bool("eps_inside")) +
                            flag("kRateInside", q.attrs.get_bool("rate_inside"));
  const Scalars scalars{{decay, q.attrs.get_float("eps"), alpha, 1 - alpha, momentum}};
  return made(make_step(q, {.states = 3, .grad = 4, .lr = 5}, scalars, flags, kRmspropText));
}

Made make_apply_adam(const CudaQuery& q) {
  const bool decoupled = q.def.name == "apply_adamw";
  const double decay = q.attrs.get_float("weight_decay");
  const std::string flags =
      flag("kShrinks", decoupled && decay != 0) + flag("kDecays", !decoupled && decay != 0) +
      flag("kDecayByRate", decoupled && q.attrs.get_bool("decay_by_lr")) +
      flag("kAmsgrad", q.attrs.get_bool("amsgrad")) + flag("kEpsHat", q.attrs.get_bool("eps_hat")) +
      flag("kCorrects", q.attrs.get_bool("bias_correction"));
  const Scalars scalars{
      {q.attrs.get_float("beta1"), q.attrs.get_float("beta2"), q.attrs.get_float("eps"), decay}};
  return made(make_step(q, {.states = 3, .grad = 4, .lr = 5, .step = 6}, scalars, flags, kAdamText));
}

Made make_apply_running(const CudaQuery& q) {
  const bool unbiased = q.def.name == "apply_running_variance";
  Inputs in{.grad = 1};
  if (unbiased) in.extra = 2;
  return made(make_step(q, in, {{q.attrs.get_float("momentum")}}, flag("kUnbiased", unbiased), kRunningText));
}

Made make_apply_lars(const CudaQuery& q) {
  const double decay = q.attrs.get_float("weight_decay");
  const Scalars scalars{
      {decay, q.attrs.get_float("momentum"), q.attrs.get_float("trust"), q.attrs.get_float("eps")}};
  TR_ASSIGN_OR_RETURN(const Step step, make_step(q, {.states = 1, .grad = 2, .lr = 3}, scalars,
                                                 flag("kDecays", decay != 0), kLarsText));
  TR_ASSIGN_OR_RETURN(const Function* squares, q.device.function(step.text, "squares"));
  TR_ASSIGN_OR_RETURN(const Function* add, q.device.function(step.text, "add_squares"));
  const unsigned blocks = blocks_for(step.n, kThreads, 8, kMostBlocks);
  // The two sums, then those of the blocks.
  return make_kernel(
      [step, squares, add, blocks](const CudaArgs& a) -> Status {
        if (step.n == 0) return ok_status();
        void *sums = a.workspace, *parts = a.workspace + 2 * sizeof(double);
        TR_RETURN_IF_ERROR(
            launch(a.stream, *squares, {blocks}, {kThreads}, 0, a.in(0).raw(), a.in(2).raw(), parts, step.n));
        TR_RETURN_IF_ERROR(
            launch(a.stream, *add, {1}, {kThreads}, 0, parts, sums, static_cast<std::int64_t>(blocks)));
        return step.enqueue(a, sums);
      },
      (blocks + 1) * 2 * sizeof(double));
}

namespace {
// Elements as bits for assign; sums of whole numbers wrap around.
constexpr const char* kAssignText = R"cuda(
__device__ __forceinline__ u64 wrap(i64 v) { return v; }
__device__ __forceinline__ u64 wrap(i32 v) { return (i64)v; }
__device__ __forceinline__ u64 wrap(u8 v) { return v; }
__device__ __forceinline__ float wrap(float v) { return v; }
__device__ __forceinline__ double wrap(double v) { return v; }
__device__ __forceinline__ T result(const T* var, T value) {
  if constexpr (kAdds) return store_acc<T>((A)(wrap(load_acc(*var)) + wrap(load_acc(value))));
  else return value;
}
extern "C" __global__ void assign(T* var, const T* value, i64 n) {
  const i64 packs = is_aligned(var) && is_aligned(value) ? n / kPack : 0;
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const Packed from = load_pack(value + k * kPack, true);
    Packed to;
    if (kAdds) to = load_pack(var + k * kPack, true);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to.v[v] = result(to.v + v, from.v[v]);
    store_pack(var + k * kPack, to, true);
  }
  for (i64 i = packs * kPack + first_index(); i < n; i += grid_step()) var[i] = result(var + i, value[i]);
}
)cuda";
}  // namespace

Made make_assign(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  const int pack = pack_width(dtype, 0);
  const std::string text =
      typed_text(dtype, {{"kPack", pack}, {"kAdds", q.def.name == "assign_add"}}, {pack_text(), kAssignText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "assign"));
  const std::int64_t n = q.inputs[0].shape.num_elems();
  return make_kernel([f, n, pack](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, pack)}, {kThreads}, 0, a.in(0).raw(), a.in(1).raw(),
                  n);
  });
}

}  // namespace trireme::kernel::cuda
