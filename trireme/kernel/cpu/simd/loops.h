// Plain loops over contiguous f32, compiled for several instruction sets and chosen at run time.
//
// The result of each loop is the same on every instruction set: no contraction to fused multiply-adds, and
// sums run in a fixed number of lanes. Where an output may be an input, it is the very same pointer or
// disjoint, never shifted.
#pragma once

#include <cstdint>

namespace trireme::kernel {

struct VectorLoops {
  const char* isa;  // "avx512", "avx2", "baseline"

  // out = a op b, elementwise; out may be a or b.
  void (*add)(const float* a, const float* b, float* out, std::int64_t n);
  void (*sub)(const float* a, const float* b, float* out, std::int64_t n);
  void (*mul)(const float* a, const float* b, float* out, std::int64_t n);
  void (*relu_grad)(const float* dy, const float* y, float* out, std::int64_t n);  // dy where y > 0
  // out may be x.
  void (*scale)(const float* x, float factor, float* out, std::int64_t n);
  void (*add_scalar)(const float* x, float value, float* out, std::int64_t n);
  void (*relu)(const float* x, float* out, std::int64_t n);  // NaN stays NaN
  // Sum in 16 lanes of f32 over stretches of 4096 elements, the stretches in f64.
  double (*sum)(const float* x, std::int64_t n);

  // w -= lr * (g + decay * w); with decay 0 the product is left out.
  void (*sgd)(float* w, const float* g, float lr, float decay, std::int64_t n);
  // v = momentum * v + (g + decay * w);  w -= lr * v, or nesterov: w -= lr * (g + decay * w + momentum * v)
  void (*momentum)(float* w, float* v, const float* g, float lr, float momentum, float decay, bool nesterov,
                   std::int64_t n);

  // Conversions, as tensor/half.h defines them. Never in place.
  void (*f32_to_bf16)(const float* x, std::uint16_t* out, std::int64_t n);
  void (*bf16_to_f32)(const std::uint16_t* x, float* out, std::int64_t n);
  void (*f32_to_f16)(const float* x, std::uint16_t* out, std::int64_t n);
  void (*f16_to_f32)(const std::uint16_t* x, float* out, std::int64_t n);

  // `rows` rows of `width` elements, packed one after another; reads and writes up to 15 elements over the
  // end.
  void (*copy_rows)(const float* from, std::int64_t from_stride, float* to, std::int64_t rows,
                    std::int64_t width);

  // One output row of max pooling with window and stride 2: `top` and `bottom` have 2 * n elements.
  void (*max_pool2)(const float* top, const float* bottom, float* out, std::int64_t n);
  // Its gradient: dy goes to the first maximum (or NaN) of each window in row-major order, zero to the
  // others.
  void (*max_pool2_grad)(const float* top, const float* bottom, const float* y, const float* dy, float* dtop,
                         float* dbottom, std::int64_t n);
  // The same with the place of each maximum in its window, 0 to 3, and a gradient that reads only these.
  void (*max_pool2_places)(const float* top, const float* bottom, float* out, std::uint8_t* places,
                           std::int64_t n);
  void (*max_pool2_places_grad)(const float* dy, const std::uint8_t* places, float* dtop, float* dbottom,
                                std::int64_t n);
  // Any max pooling in two steps. Column i of `count` rows: best[i] is its first NaN, else its first maximum;
  // at[i] where that lies, from rows[0] on.
  void (*column_winners)(const float* rows, std::int64_t row_elems, std::int64_t count, float* best,
                         std::int32_t* at, std::int64_t n);
  // Windows of `window` such columns, one every `stride`: the winner of each; of equal ones the first by
  // `at`.
  void (*window_winners)(const float* best, const std::int32_t* at, std::int64_t window, std::int64_t stride,
                         float* out, std::int32_t* out_at, std::int64_t n);
};

// The fastest set for the instructions of this processor. Constant over the life of the process.
const VectorLoops& vector_loops();

}  // namespace trireme::kernel
