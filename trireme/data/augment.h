// Augmentation of pictures [C, H, W]: what is done to a sample is a pure function of (seed, epoch, sample).
#pragma once

#include <cstdint>
#include <span>

#include "trireme/tensor/shape.h"

namespace trireme::data {

struct Augment {
  int shift = 0;      // moved by up to this many pixels each way; what comes in is 0 (padding and cropping)
  double crop = 1;    // < 1: a window of at least this share of each side, stretched to the whole (bilinear)
  bool flip = false;  // mirrored left to right, every other time

  bool any() const { return shift > 0 || crop < 1 || flip; }
};

// Rejects shifts below 0 or beyond the picture, crops outside (0, 1], and shapes that are no pictures.
Status check_augment(const Augment& augment, const Shape& sample);

// One draw: output (y, x) shows the input at (y0 + y * dy, x0 + x * dx). Whole numbers unless cropped.
struct AugmentedView {
  double y0 = 0, x0 = 0, dy = 1, dx = 1;
  bool resampled = false;
};
AugmentedView draw_view(const Augment& augment, const Shape& sample, std::uint64_t seed, std::int64_t epoch,
                        std::int64_t sample_id);

// Writes the view of one channel, H x W values, as they are stored.
void view_channel(const AugmentedView& view, std::span<const std::uint8_t> in, std::int64_t height,
                  std::int64_t width, std::span<float> out);
void view_channel(const AugmentedView& view, std::span<const float> in, std::int64_t height,
                  std::int64_t width, std::span<float> out);

}  // namespace trireme::data
