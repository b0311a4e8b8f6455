// Batches of the built-in digits, for the examples.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/data/digits.h"
#include "trireme/tensor/tensor.h"

namespace examples {

struct Batch {
  trireme::Tensor images;   // f32[n, 1, 28, 28], about 0 on average
  trireme::Tensor labels;   // i32[n]
  trireme::Tensor weights;  // f32[n], 1 / n each: the weighted sum of losses is their mean
};

// `n` digits from sample `first` on. Training samples are below 60000, test samples above.
inline Batch digits(std::int64_t first, std::int64_t n) {
  using namespace trireme;
  Batch batch{*Tensor::allocate(cpu_device(), {DType::kF32, {n, 1, data::kDigitSide, data::kDigitSide}}),
              *Tensor::allocate(cpu_device(), {DType::kI32, {n}}),
              *Tensor::allocate(cpu_device(), {DType::kF32, {n}})};
  std::array<std::uint8_t, data::kDigitSide * data::kDigitSide> pixels{};
  float* image = batch.images.data<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    batch.labels.data<std::int32_t>()[i] = data::draw_digit({}, first + i, pixels);
    batch.weights.data<float>()[i] = 1.0F / static_cast<float>(n);
    for (const std::uint8_t p : pixels) *image++ = (static_cast<float>(p) - 33.0F) / 78.0F;
  }
  return batch;
}

}  // namespace examples
