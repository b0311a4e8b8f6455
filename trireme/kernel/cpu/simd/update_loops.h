// Optimiser steps over contiguous f32, in place. Compiled and chosen like the loops of loops.h; every
// operation is rounded like that of the reference in op/update, so the bits are the same.
#pragma once

#include <cstdint>

namespace trireme::kernel {

// op/update/adam.h. Without an effect: shrink 1, decay 0, root_bias 1.
struct AdamStep {
  float shrink, decay, rest1, keep2, rest2, root_bias, lr, eps;
};
// op/update/apply_rmsprop.cc. Of eps_inside and eps_outside one is 0, of lr_inside and lr_outside one is 1.
struct RmspropStep {
  float decay, alpha, rest, eps_inside, eps_outside, momentum, lr_inside, lr_outside;
};

struct UpdateLoops {
  // `max_v` null: no amsgrad.
  void (*adam)(const AdamStep& s, float* w, float* m, float* v, float* max_v, const float* g, std::int64_t n);
  // `mean` null: not centered; `velocity` null: no momentum.
  void (*rmsprop)(const RmspropStep& s, float* w, float* square, float* mean, float* velocity, const float* g,
                  std::int64_t n);
  // s += (g + decay w)^2; w -= lr (g + decay w) / (sqrt(s + eps_inside) + eps_outside)
  void (*adagrad)(float* w, float* sum, const float* g, float lr, float decay, float eps_inside,
                  float eps_outside, std::int64_t n);
  // v = momentum v + rate (g + decay w); w -= v
  void (*lars)(float* w, float* v, const float* g, float rate, float momentum, float decay, std::int64_t n);
  double (*sum_of_squares)(const float* x, std::int64_t n);
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const UpdateLoops& update_loops();

}  // namespace trireme::kernel
