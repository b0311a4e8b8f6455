// The largest of many values, by magnitude.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::codec {

// How many `fraction` of `count` values are, rounded up.
std::size_t share_of(std::size_t count, double fraction);
// Positions of magnitudes of at least `limit`, in order.
std::vector<std::uint32_t> positions_above(std::span<const float> values, float limit);
// Exactly the `count` largest, in order of position; of equal ones the first. count <= values.size().
std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t count);
// A magnitude that about `fraction` of the values reach, from a sample of them.
float sampled_limit(std::span<const float> values, double fraction);

}  // namespace trireme::codec
