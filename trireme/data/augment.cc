#include "trireme/data/augment.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"

namespace trireme::data {
namespace {

template <typename T>
void copy_view(const AugmentedView& view, std::span<const T> in, std::int64_t height, std::int64_t width,
               std::span<float> out) {
  const auto y0 = static_cast<std::int64_t>(view.y0), x0 = static_cast<std::int64_t>(view.x0);
  const bool mirrored = view.dx < 0;
  // Columns that show the picture: where x0 + x, mirrored x0 - x, lies in it.
  const std::int64_t begin = std::clamp<std::int64_t>(mirrored ? x0 - width + 1 : -x0, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(mirrored ? x0 + 1 : width - x0, begin, width);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t from_y = y0 + y;
    float* row = out.data() + y * width;
    if (from_y < 0 || from_y >= height) {
      std::fill_n(row, width, 0.0F);
      continue;
    }
    std::fill(row, row + begin, 0.0F);
    std::fill(row + end, row + width, 0.0F);
    const T* from = in.data() + from_y * width;
    if (mirrored)
      for (std::int64_t x = begin; x < end; ++x) row[x] = static_cast<float>(from[x0 - x]);
    else
      for (std::int64_t x = begin; x < end; ++x) row[x] = static_cast<float>(from[x0 + x]);
  }
}

// The two samples between which a place on a line lies, and their weights; those outside weigh nothing.
struct Between {
  std::int64_t low, high;
  float low_weight, high_weight;
};
Between between(double place, std::int64_t size) {
  const double floor = std::floor(place);
  const auto low = static_cast<std::int64_t>(floor);
  const auto part = static_cast<float>(place - floor);
  const auto inside = [&](std::int64_t i) { return i >= 0 && i < size; };
  return {std::clamp<std::int64_t>(low, 0, size - 1), std::clamp<std::int64_t>(low + 1, 0, size - 1),
          inside(low) ? 1 - part : 0.0F, inside(low + 1) ? part : 0.0F};
}

template <typename T>
void resample_view(const AugmentedView& view, std::span<const T> in, std::int64_t height, std::int64_t width,
                   std::span<float> out) {
  std::vector<Between> across;
  for (std::int64_t x = 0; x < width; ++x)
    across.push_back(between(view.x0 + static_cast<double>(x) * view.dx, width));
  for (std::int64_t y = 0; y < height; ++y) {
    const Between down = between(view.y0 + static_cast<double>(y) * view.dy, height);
    const T *top = in.data() + down.low * width, *bottom = in.data() + down.high * width;
    float* row = out.data() + y * width;
    for (const Between& b : across) {
      const float above =
          b.low_weight * static_cast<float>(top[b.low]) + b.high_weight * static_cast<float>(top[b.high]);
      const float below = b.low_weight * static_cast<float>(bottom[b.low]) +
                          b.high_weight * static_cast<float>(bottom[b.high]);
      *row++ = down.low_weight * above + down.high_weight * below;
    }
  }
}

template <typename T>
void view_any(const AugmentedView& view, std::span<const T> in, std::int64_t height, std::int64_t width,
              std::span<float> out) {
  TR_CHECK(static_cast<std::int64_t>(in.size()) == height * width && in.size() == out.size());
  if (view.resampled)
    resample_view(view, in, height, width, out);
  else
    copy_view(view, in, height, width, out);
}

}  // namespace

Status check_augment(const Augment& augment, const Shape& sample) {
  if (!augment.any()) return {};
  if (sample.rank() != 3)
    return error(Code::kInvalid, "[data] augmentation needs images [C, H, W]: got samples {}; switch it off",
                 sample.to_string());
  if (augment.shift < 0 || augment.shift >= std::min(sample[1], sample[2]))
    return error(Code::kInvalid, "[data] augmentation shift: got {}, expected 0 to {}", augment.shift,
                 std::min(sample[1], sample[2]) - 1);
  if (!(augment.crop > 0 && augment.crop <= 1))
    return error(Code::kInvalid, "[data] augmentation crop: got {}, expected more than 0 and at most 1",
                 augment.crop);
  return {};
}

AugmentedView draw_view(const Augment& augment, const Shape& sample, std::uint64_t seed, std::int64_t epoch,
                        std::int64_t sample_id) {
  AugmentedView view;
  if (!augment.any()) return view;
  Philox rng(mix_key(seed, hash_text("augment"), static_cast<std::uint64_t>(epoch)),
             static_cast<std::uint64_t>(sample_id));
  // Every draw is made whether used or not: switching one kind on leaves the others as they were.
  const auto span = static_cast<std::uint32_t>(2 * augment.shift + 1);
  view.y0 = static_cast<double>(rng.next_below(span)) - augment.shift;
  view.x0 = static_cast<double>(rng.next_below(span)) - augment.shift;
  const bool mirrored = augment.flip && (rng.next_u32() & 1U) != 0;
  const double side_y = augment.crop + (1 - augment.crop) * rng.next_double();
  const double side_x = augment.crop + (1 - augment.crop) * rng.next_double();
  const double place_y = rng.next_double(), place_x = rng.next_double();
  const auto last_y = static_cast<double>(sample[1] - 1), last_x = static_cast<double>(sample[2] - 1);
  if (augment.crop < 1) {
    view.resampled = true;
    view.dy = side_y;
    view.dx = side_x;
    view.y0 += place_y * (1 - side_y) * last_y;
    view.x0 += place_x * (1 - side_x) * last_x;
  }
  if (mirrored) {
    view.x0 += last_x * view.dx;
    view.dx = -view.dx;
  }
  return view;
}

void view_channel(const AugmentedView& view, std::span<const std::uint8_t> in, std::int64_t height,
                  std::int64_t width, std::span<float> out) {
  view_any(view, in, height, width, out);
}

void view_channel(const AugmentedView& view, std::span<const float> in, std::int64_t height,
                  std::int64_t width, std::span<float> out) {
  view_any(view, in, height, width, out);
}

}  // namespace trireme::data
