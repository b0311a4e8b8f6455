// Synthetic samples: a centre per class and noise around it, drawn when asked for. A value is a pure function
// of (seed, sample, element), so a set of any size takes no memory.
#pragma once

#include <cstdint>
#include <span>

namespace trireme::data {

struct SyntheticSpec {
  std::uint64_t seed = 2024;
  std::int32_t classes = 10;
};

// Balanced: every aligned run of `classes` samples holds each class once, in shuffled order.
std::int32_t synthetic_label(const SyntheticSpec& spec, std::int64_t index);

// Noise is uniform with mean 0 and variance 1; centres have variance 1/4: two classes of d values lie
// sqrt(d / 2) apart.
void draw_synthetic(const SyntheticSpec& spec, std::int64_t index, std::span<float> out);

}  // namespace trireme::data
