// How the work of a convolution is cut over threads, and the sums of its filter gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trireme/kernel/cpu/conv/conv_shape.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {

enum class ConvKind { kForward, kInputGrad, kFilterGrad };

// Parts of the images times parts of the output channels. A filter gradient is cut over both: parts over
// images are added up (a whole gradient for each, where the filter is large), parts over channels read all of
// x. What moves fewest bytes is taken. Other convolutions have more parts than threads where there are many.
struct ConvCut {
  int images = 1, channels = 1;
  int threads = 1;  // at once: as many as parts in a filter gradient
  int count() const { return images * channels; }

  // `image_bytes` are moved for every element of an image.
  static ConvCut of(ConvKind kind, const ConvShape& s, int width, int image_bytes);
};

// Slice i of filter gradients is part i / channels of the images and part i % channels of the channels, and
// partial(i) has `floats` numbers. Those of one part of the channels are added into the first, in the order
// of the images, whatever thread adds.
template <typename Partial>
void add_partials(op::Parallel& parallel, const ConvCut& cut, std::int64_t floats, const Partial& partial) {
  const auto values = [&](int i) { return reinterpret_cast<float*>(partial(i)); };
  for_elems(parallel, cut.images > 1 ? floats * cut.channels : 0, [&](std::int64_t first, std::int64_t last) {
    while (first < last) {
      const auto channel = static_cast<int>(first / floats);
      const std::int64_t at = first % floats, n = std::min(last - first, floats - at);
      for (int i = 1; i < cut.images; ++i)
        vector_loops().add(values(channel) + at, values(i * cut.channels + channel) + at,
                           values(channel) + at, n);
      first += n;
    }
  });
}

}  // namespace trireme::kernel
