// Ops that write variables: optimiser steps and running averages; the text of each is in its .cu.
//
// Values are those of the references, to the bit where they are sums, products, quotients and roots: the
// text's Number rounds after every operation (no fused multiply-add), in the order of op/update. Factors that
// depend on lr and the step are formed in f64 by one thread of a block, so that captured launches follow
// them.
#include <fmt/format.h>

#include <array>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kNumberText[], kStepText[];  // number.cu, step.cu
// The texts of ops; the scalars that each takes are said there.
extern const char kSgdText[], kMomentumText[], kAdagradText[], kRmspropText[], kAdamText[], kRunningText[],
    kLarsText[];

namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostBlocks = 1056;  // eight per multiprocessor of the GPUs that this is made for
constexpr int kMaxStates = 3;

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
      {head, kPackText, kNumberText, body, kStepText});
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
  const Scalars scalars{{q.attrs.get_float("beta1"), q.attrs.get_float("beta2"), q.attrs.get_float("eps"),
                         decay, static_cast<double>(q.attrs.get_int("fixed_after"))}};
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

}  // namespace trireme::kernel::cuda
