#include "trireme/data/dataset.h"

#include <algorithm>

namespace trireme::data {

void fill_batch(const Dataset& set, std::span<const std::int64_t> ids, float weight, std::span<float> images,
                std::span<std::int32_t> labels, std::span<float> weights) {
  const auto elems = static_cast<std::size_t>(set.sample_elems());
  TR_CHECK(images.size() == ids.size() * elems && labels.size() == ids.size() &&
           weights.size() == ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    float* out = images.data() + i * elems;
    if (ids[i] < 0) {
      std::fill_n(out, elems, 0.0F);
      labels[i] = 0;
      weights[i] = 0;
      continue;
    }
    const auto id = static_cast<std::size_t>(ids[i]);
    const std::uint8_t* in = set.pixels.data() + id * elems;
    for (std::size_t j = 0; j < elems; ++j) out[j] = (static_cast<float>(in[j]) - set.mean) * set.scale;
    labels[i] = set.labels[id];
    weights[i] = weight;
  }
}

}  // namespace trireme::data
