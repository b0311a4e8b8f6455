// Optimiser steps with states per element, and LARS: they write their first inputs in place. Formulas:
// op/update.
#include <algorithm>
#include <cmath>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/update_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"
#include "trireme/op/update/adam.h"

namespace trireme::kernel {
namespace {

float* f32_inout(const op::KernelArgs& args, int i) { return args.in(i).values<float>().data(); }

double lr_of(const op::KernelArgs& args, int i) { return static_cast<double>(f32_in(args, i)[0]); }
double step_of(const op::KernelArgs& args, int i) {
  return static_cast<double>(std::max<std::int64_t>(args.in(i).values<std::int64_t>()[0], 1));
}

// Param, states, grad and lr in f32; the count of steps is an integer.
template <std::size_t kFloats>
bool f32_but_step(const op::KernelQuery& q) {
  return std::all_of(q.inputs.begin(), q.inputs.begin() + kFloats,
                     [](const TensorType& t) { return t.dtype == DType::kF32; });
}

// Factors are formed in f64 and rounded once.
AdamStep adam_step(const op::KernelArgs& args, double shrink, double weight_decay) {
  const double beta1 = args.attrs.get_float("beta1");
  const bool eps_hat = args.attrs.get_bool("eps_hat"), corrects = args.attrs.get_bool("bias_correction");
  const double t = step_of(args, 6);
  const double first = corrects ? 1 - std::pow(beta1, t) : 1;
  const op::detail::SecondMoment second = op::detail::second_moment(args.attrs, t);
  const double root2 = corrects ? second.root_bias : 1;
  return {.shrink = static_cast<float>(shrink),
          .decay = static_cast<float>(weight_decay),
          .rest1 = static_cast<float>(1 - beta1),
          .keep2 = static_cast<float>(second.kept),
          .rest2 = static_cast<float>(1 - second.kept),
          .root_bias = eps_hat ? 1.0F : static_cast<float>(root2),
          .lr = static_cast<float>(lr_of(args, 5) / first * (eps_hat ? root2 : 1)),
          .eps = static_cast<float>(args.attrs.get_float("eps"))};
}

void run_adam_with(op::KernelArgs& args, const AdamStep& step) {
  float *w = f32_inout(args, 0), *m = f32_inout(args, 1), *v = f32_inout(args, 2),
        *max_v = f32_inout(args, 3);
  const float* g = f32_in(args, 4);
  const bool amsgrad = args.attrs.get_bool("amsgrad");
  for_elems(args.parallel, args.in(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    update_loops().adam(step, w + begin, m + begin, v + begin, amsgrad ? max_v + begin : nullptr, g + begin,
                        end - begin);
  });
}

void run_adam(op::KernelArgs& args) {
  run_adam_with(args, adam_step(args, 1, args.attrs.get_float("weight_decay")));
}

void run_adamw(op::KernelArgs& args) {
  const double factor = args.attrs.get_bool("decay_by_lr") ? lr_of(args, 5) : 1;
  run_adam_with(args, adam_step(args, 1 - factor * args.attrs.get_float("weight_decay"), 0));
}

void run_rmsprop(op::KernelArgs& args) {
  float *w = f32_inout(args, 0), *square = f32_inout(args, 1);
  float *mean = f32_inout(args, 2), *velocity = f32_inout(args, 3);
  const float* g = f32_in(args, 4);
  const op::Attrs& attrs = args.attrs;
  const bool centered = attrs.get_bool("centered"), moves = attrs.get_float("momentum") != 0;
  const bool eps_inside = attrs.get_bool("eps_inside"), rate_inside = moves && attrs.get_bool("rate_inside");
  const auto eps = static_cast<float>(attrs.get_float("eps"));
  const float lr = f32_in(args, 5)[0];
  const RmspropStep step{.decay = static_cast<float>(attrs.get_float("weight_decay")),
                         .alpha = static_cast<float>(attrs.get_float("alpha")),
                         .rest = static_cast<float>(1 - attrs.get_float("alpha")),
                         .eps_inside = eps_inside ? eps : 0,
                         .eps_outside = eps_inside ? 0 : eps,
                         .momentum = static_cast<float>(attrs.get_float("momentum")),
                         .lr_inside = rate_inside ? lr : 1,
                         .lr_outside = rate_inside ? 1 : lr};
  for_elems(args.parallel, args.in(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    update_loops().rmsprop(step, w + begin, square + begin, centered ? mean + begin : nullptr,
                           moves ? velocity + begin : nullptr, g + begin, end - begin);
  });
}

void run_adagrad(op::KernelArgs& args) {
  float *w = f32_inout(args, 0), *sum = f32_inout(args, 1);
  const float* g = f32_in(args, 2);
  const double past = step_of(args, 4) - 1;
  const auto lr = static_cast<float>(lr_of(args, 3) / (1 + past * args.attrs.get_float("lr_decay")));
  const auto decay = static_cast<float>(args.attrs.get_float("weight_decay"));
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  const bool inside = args.attrs.get_bool("eps_inside");
  for_elems(args.parallel, args.in(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    update_loops().adagrad(w + begin, sum + begin, g + begin, lr, decay, inside ? eps : 0, inside ? 0 : eps,
                           end - begin);
  });
}

// Squares of weights and gradients, a pair per slice.
std::size_t lars_workspace(const op::KernelQuery& q) {
  return 2 * static_cast<std::size_t>(q.width) * sizeof(double);
}

double local_rate(const op::Attrs& attrs, double weight_norm, double grad_norm) {
  if (weight_norm == 0 || grad_norm == 0) return 1;
  const double decayed = attrs.get_float("weight_decay") * weight_norm;
  return attrs.get_float("trust") * weight_norm / (grad_norm + decayed + attrs.get_float("eps"));
}

void run_lars(op::KernelArgs& args) {
  float *w = f32_inout(args, 0), *v = f32_inout(args, 1);
  const float* g = f32_in(args, 2);
  const std::int64_t n = args.in(0).shape().num_elems();
  auto* partial = reinterpret_cast<double*>(args.workspace.data());
  const int slices = num_slices(n, n, args.parallel.width());
  const UpdateLoops& loops = update_loops();
  for_slices(args.parallel, n, slices, [&](std::int64_t begin, std::int64_t end, int slice) {
    partial[2 * slice] = loops.sum_of_squares(w + begin, end - begin);
    partial[2 * slice + 1] = loops.sum_of_squares(g + begin, end - begin);
  });
  double weights = 0, grads = 0;
  for (int slice = 0; slice < slices; ++slice) {
    weights += partial[2 * slice];
    grads += partial[2 * slice + 1];
  }
  const double local = local_rate(args.attrs, std::sqrt(weights), std::sqrt(grads));
  const auto rate = static_cast<float>(lr_of(args, 3) * local);
  const auto momentum = static_cast<float>(args.attrs.get_float("momentum"));
  const auto decay = static_cast<float>(args.attrs.get_float("weight_decay"));
  for_elems(args.parallel, n, [&](std::int64_t begin, std::int64_t end) {
    loops.lars(w + begin, v + begin, g + begin, rate, momentum, decay, end - begin);
  });
}

}  // namespace

extern const op::KernelRow kApplyAdamVector{
    .op = "apply_adam", .name = "vector", .run = run_adam, .applicable = f32_but_step<6>};
extern const op::KernelRow kApplyAdamwVector{
    .op = "apply_adamw", .name = "vector", .run = run_adamw, .applicable = f32_but_step<6>};
extern const op::KernelRow kApplyAdagradVector{
    .op = "apply_adagrad", .name = "vector", .run = run_adagrad, .applicable = f32_but_step<4>};
extern const op::KernelRow kApplyLarsVector{.op = "apply_lars",
                                            .name = "vector",
                                            .run = run_lars,
                                            .applicable = all_f32,
                                            .workspace_bytes = lars_workspace};
extern const op::KernelRow kApplyRmspropVector{
    .op = "apply_rmsprop", .name = "vector", .run = run_rmsprop, .applicable = all_f32};

}  // namespace trireme::kernel
