// Optimiser steps: write their first inputs in place.
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

float* f32_inout(const op::KernelArgs& args, int i) { return args.in(i).values<float>().data(); }

void run_sgd(op::KernelArgs& args) {
  float* w = f32_inout(args, 0);
  const float *g = f32_in(args, 1), lr = f32_in(args, 2)[0];
  const auto decay = static_cast<float>(args.attrs.get_float("weight_decay"));
  for_elems(args.parallel, args.in(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    vector_loops().sgd(w + begin, g + begin, lr, decay, end - begin);
  });
}

void run_momentum(op::KernelArgs& args) {
  float *w = f32_inout(args, 0), *v = f32_inout(args, 1);
  const float *g = f32_in(args, 2), lr = f32_in(args, 3)[0];
  const auto momentum = static_cast<float>(args.attrs.get_float("momentum"));
  const auto decay = static_cast<float>(args.attrs.get_float("weight_decay"));
  const bool nesterov = args.attrs.get_bool("nesterov");
  for_elems(args.parallel, args.in(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    vector_loops().momentum(w + begin, v + begin, g + begin, lr, momentum, decay, nesterov, end - begin);
  });
}

// The loop has neither dampening nor the learning rate inside the velocity.
bool plain_momentum(const op::KernelQuery& q) {
  return all_f32(q) && q.attrs.get_float("dampening") == 0 && !q.attrs.get_bool("rate_inside");
}

}  // namespace

extern const op::KernelRow kApplySgdVector{
    .op = "apply_sgd", .name = "vector", .run = run_sgd, .applicable = all_f32};
extern const op::KernelRow kApplyMomentumVector{
    .op = "apply_momentum", .name = "vector", .run = run_momentum, .applicable = plain_momentum};

}  // namespace trireme::kernel
