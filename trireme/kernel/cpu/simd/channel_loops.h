// Matrices [rows, n] with a channel per column, of f32 or bf16: sums of columns, and batch normalisation.
// Compiled and chosen like the loops of loops.h, with the same bits on every instruction set: a column is
// added row by row in f32, so rows should be few.
#pragma once

#include <cstdint>

namespace trireme::kernel {

// Tables are indexed by whether an operand is bf16, in the order of the arguments.
struct ChannelLoops {
  // sum[c] = sum of column c
  void (*sums[2])(const void* x, std::int64_t rows, std::int64_t n, float* sum);
  // sum[c] = sum of (x - mean[c])^2
  void (*off_squares[2])(const void* x, const float* mean, std::int64_t rows, std::int64_t n, float* sum);
  // y = (x - mean) inv scale + bias
  void (*affine[2][2])(const void* x, void* y, const float* mean, const float* inv, const float* scale,
                       const float* bias, std::int64_t rows, std::int64_t n);
  // sum[c] = sum of dy, dot[c] = sum of dy (x - mean) inv
  void (*grad_sums[2][2])(const void* x, const void* dy, const float* mean, const float* inv,
                          std::int64_t rows, std::int64_t n, float* sum, float* dot);
  // dx = inv (dy scale - mean_g - (x - mean) inv mean_dot)
  void (*affine_grad[2][2][2])(const void* x, const void* dy, void* dx, const float* mean, const float* inv,
                               const float* scale, const float* mean_g, const float* mean_dot,
                               std::int64_t rows, std::int64_t n);

  // One tap of a window of max pooling: where v wins against best, it takes its place and `tap` goes to at.
  // The first NaN wins, else the first maximum.
  void (*compete)(const float* v, std::int32_t tap, float* best, std::int32_t* at, std::int64_t n);
  // The winners of a window: y the values, places the taps. Tap i of `count` is number `taps[i]` and its
  // pixel lies at x + offsets[i]; the first NaN wins, else the first maximum.
  void (*window_winners)(const float* x, const std::int64_t* offsets, const std::uint8_t* taps,
                         std::int64_t count, float* y, std::uint8_t* places, std::int64_t n);
  // dx = dy where at is tap, 0 elsewhere
  void (*take_where)(const float* dy, const std::uint8_t* at, std::int32_t tap, float* dx, std::int64_t n);
  // sum += dy where at is tap
  void (*add_where)(const float* dy, const std::uint8_t* at, std::int32_t tap, float* sum, std::int64_t n);
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const ChannelLoops& channel_loops();

}  // namespace trireme::kernel
