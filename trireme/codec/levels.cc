#include "trireme/codec/levels.h"

#include <algorithm>

#include "trireme/codec/loops.h"

namespace trireme::codec {

namespace {

// The largest level that was met.
template <int kBits>
std::int32_t add_levels(const std::uint8_t* in, std::size_t n, float unit, float* out) {
  constexpr std::size_t kPerByte = 8 / kBits;
  constexpr std::int32_t kMask = (1 << kBits) - 1, kSteps = (1 << (kBits - 1)) - 1;
  std::int32_t most = 0;
  std::size_t i = 0;
  for (; i + kPerByte <= n; i += kPerByte)
    for (std::size_t j = 0; j < kPerByte; ++j) {
      const std::int32_t level = in[i / kPerByte] >> (j * kBits) & kMask;
      most = std::max(most, level);
      out[i + j] += static_cast<float>(level - kSteps) * unit;
    }
  for (std::size_t j = 0; i + j < n; ++j) {
    const std::int32_t level = in[i / kPerByte] >> (j * kBits) & kMask;
    most = std::max(most, level);
    out[i + j] += static_cast<float>(level - kSteps) * unit;
  }
  return most;
}

}  // namespace

std::size_t LevelFormat::write(const float* values, float* r, std::size_t n, float scale, std::uint64_t key,
                               std::uint64_t first, std::byte* out) const {
  std::array<std::uint8_t, kLevelBucket> levels{};
  loops().quantise(values, n, scale, steps(), key, first, levels.data());
  const std::size_t per_byte = 8 / static_cast<std::size_t>(bits);
  for (std::size_t i = n; i % per_byte != 0; ++i) levels[i] = 0;
  for (std::size_t i = 0; i < n; i += per_byte) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < per_byte; ++j)
      byte |= static_cast<unsigned>(levels[i + j]) << (j * static_cast<std::size_t>(bits));
    out[i / per_byte] = static_cast<std::byte>(byte);
  }
  if (r != nullptr) {
    const float unit = scale / static_cast<float>(steps());
    for (std::size_t i = 0; i < n; ++i) r[i] -= static_cast<float>(levels[i] - steps()) * unit;
  }
  return bytes_of(n);
}

bool LevelFormat::add(const std::byte* in, std::size_t n, float scale, float* out) const {
  const float unit = scale / static_cast<float>(steps());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
  const std::int32_t most = bits == 2   ? add_levels<2>(bytes, n, unit, out)
                            : bits == 4 ? add_levels<4>(bytes, n, unit, out)
                                        : add_levels<8>(bytes, n, unit, out);
  return most <= 2 * steps();
}

}  // namespace trireme::codec
