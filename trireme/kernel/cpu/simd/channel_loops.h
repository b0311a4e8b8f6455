// Matrices [rows, n] with a channel per column, of f32 or bf16: sums of columns, and batch normalisation.
// Compiled and chosen like the loops of loops.h, with the same bits on every instruction set: a column is
// added row by row in f32, so rows should be few.
#pragma once

#include <cstdint>

namespace trireme::kernel {

// Rows of an image, f32 or bf16.
struct ConstRows {
  const void* at = nullptr;
  bool low = false;
};
struct MutableRows {
  void* at = nullptr;
  bool low = false;
};

// `away`, below: the result is larger than caches and goes past them, where it is f32 and whole lines.

// y = (x - mean) gain + bias; with a residual added to it and relu; or with relu.
struct Normed {
  ConstRows x = {}, residual = {};
  MutableRows y = {};
  const float *mean, *gain, *bias;
  bool relu = false, away = false;
};

// d is dy, or the sum of dy and second; where y is given, 0 where y is not positive, and d is written to
// `masked`; where bias is given, 0 where (x - mean) gain + bias is not positive: the expression of Normed.
struct NormGrad {
  ConstRows x = {}, dy = {}, second = {}, y = {};
  MutableRows masked = {}, dx = {};
  const float *mean, *gain, *bias = nullptr;
  const float *mean_d = nullptr, *mean_dot = nullptr;
  bool away = false;
};

// Tables are indexed by whether x is bf16.
struct ChannelLoops {
  // sum[c] = sum of column c
  void (*sums[2])(const void* x, std::int64_t rows, std::int64_t n, float* sum);
  // mean[c] of column c, square[c] = sum of (x - mean[c])^2
  void (*moments[2])(const void* x, std::int64_t rows, std::int64_t n, float* mean, float* square);
  void (*normalise)(const Normed& to, std::int64_t rows, std::int64_t n);
  // sum[c] = sum of d, dot[c] = sum of d (x - mean)
  void (*grad_sums)(const NormGrad& of, std::int64_t rows, std::int64_t n, float* sum, float* dot);
  // dx = d gain - mean_d - (x - mean) mean_dot; y and second are not looked at
  void (*normalise_grad)(const NormGrad& of, std::int64_t rows, std::int64_t n);

  // Columns [begin, end) of chunks x n partial results, added in their order in f64.
  void (*join_sums)(const float* parts, std::int64_t chunks, std::int64_t n, std::int64_t begin,
                    std::int64_t end, float* sum);
  // Joins results of `moments`, each of `chunk` rows but for the last: the mean, and the mean of squares
  // about it (Chan, Golub and LeVeque, 1979).
  void (*join_moments)(const float* means, const float* squares, std::int64_t chunks, std::int64_t chunk,
                       std::int64_t rows, std::int64_t n, std::int64_t begin, std::int64_t end, float* mean,
                       float* var);

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
