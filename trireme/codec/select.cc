#include "trireme/codec/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "trireme/codec/loops.h"

namespace trireme::codec {
namespace {

constexpr std::size_t kChunk = 8192, kLeastSample = 4096;

std::int32_t magnitude(float v) { return std::bit_cast<std::int32_t>(v) & 0x7FFFFFFF; }

}  // namespace

std::size_t share_of(std::size_t count, double fraction) {
  return std::min(count, static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(count))));
}

std::vector<std::uint32_t> positions_above(std::span<const float> values, float limit) {
  std::vector<std::uint32_t> found;
  std::vector<std::uint32_t> here(std::min(kChunk, values.size()));
  for (std::size_t at = 0; at < values.size(); at += kChunk) {
    const std::size_t n = std::min(kChunk, values.size() - at);
    const std::size_t count =
        loops().find_large(values.data() + at, n, limit, static_cast<std::uint32_t>(at), here.data());
    found.insert(found.end(), here.begin(), here.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return found;
}

float sampled_limit(std::span<const float> values, double fraction) {
  if (values.empty()) return 0;
  const std::size_t size = std::min(values.size(), std::max(kLeastSample, values.size() / 256));
  std::vector<std::int32_t> sample(size);
  for (std::size_t i = 0; i < size; ++i) sample[i] = magnitude(values[values.size() / size * i]);
  const auto rank = std::min(size - 1, static_cast<std::size_t>(fraction * static_cast<double>(size)));
  const auto nth = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample.begin(), nth, sample.end(), std::greater<>());
  return std::bit_cast<float>(*nth);
}

std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t count) {
  std::vector<std::uint32_t> found;
  if (count == 0) return found;
  // A little more than asked for, so that an unlucky sample costs a second look seldom.
  const double fraction = static_cast<double>(count) / static_cast<double>(values.size());
  if (values.size() > 2 * kLeastSample)
    for (const double more : {1.25, 2.5})
      if (found.size() < count && more * fraction < 0.5)
        found = positions_above(values, sampled_limit(values, more * fraction + 4.0 / kLeastSample));
  if (found.size() < count) {
    found.resize(values.size());
    std::iota(found.begin(), found.end(), 0U);
  }
  if (found.size() == count) return found;
  std::vector<std::int32_t> sizes;
  for (const std::uint32_t at : found) sizes.push_back(magnitude(values[at]));
  const auto nth = sizes.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sizes.begin(), nth, sizes.end(), std::greater<>());
  const std::int32_t least = *nth;
  auto equal = static_cast<std::size_t>(std::count(sizes.begin(), nth + 1, least));  // of those to be taken
  std::erase_if(found, [&](std::uint32_t at) {
    const std::int32_t m = magnitude(values[at]);
    if (m == least && equal > 0) return --equal, false;
    return m <= least;
  });
  return found;
}

}  // namespace trireme::codec
