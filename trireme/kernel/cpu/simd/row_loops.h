// Rows of contiguous f32 as wholes: normalisation and softmax. Compiled and chosen like the loops of loops.h,
// with the same bits on every instruction set: sums run in 64 lanes of f32 over stretches of 4096 elements,
// the stretches in f64.
#pragma once

#include <cstdint>

namespace trireme::kernel {

struct RowLoops {
  // y = (x - mean) / sqrt(var + eps) * scale + bias with the mean and biased variance of x, which has
  // elements.
  void (*norm)(const float* x, const float* scale, const float* bias, float eps, float* y, float* mean,
               float* var, std::int64_t n);
  // With xh = (x - mean) inv and g = dy scale: dx = inv (g - mean of g - xh mean of (g xh)).
  void (*norm_grad)(const float* x, const float* scale, const float* dy, float mean, float inv, float* dx,
                    std::int64_t n);
  // Adds dy xh and dy, summed over `rows` rows (few: sums are f32), to dscale and dbias.
  void (*norm_param_grad)(const float* x, const float* dy, const float* mean, const float* inv,
                          std::int64_t rows, std::int64_t n, double* dscale, double* dbias);

  // Parts of one group of batch normalisation, whose statistics and parameters are numbers.
  double (*sum_off_squares)(const float* x, float mean, std::int64_t n);  // of (x - mean)^2
  // y = (x - mean) inv scale + bias
  void (*affine)(const float* x, float mean, float inv, float scale, float bias, float* y, std::int64_t n);
  double (*dot_off)(const float* dy, const float* x, float mean, float inv,
                    std::int64_t n);  // sum of dy (x - mean) inv
  // dx = inv (dy scale - mean_g - (x - mean) inv mean_dot)
  void (*affine_grad)(const float* x, const float* dy, float mean, float inv, float scale, float mean_g,
                      float mean_dot, float* dx, std::int64_t n);

  // s = softmax(factor s), in place; factor is positive.
  void (*softmax)(float* s, float factor, std::int64_t n);
  // dp = factor p (dp - sum of p dp), in place.
  void (*softmax_grad)(const float* p, float* dp, float factor, std::int64_t n);
  // log(sum of exp(x)) comes as maximum + log(total); exp(x - maximum) goes to e, which may be x.
  void (*shifted_exp)(const float* x, float* e, float* maximum, float* total, std::int64_t n);
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const RowLoops& row_loops();

}  // namespace trireme::kernel
