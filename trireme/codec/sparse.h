// Chosen values with their positions, as topk and nonzero send them: u32 count, f32 values in order of
// position, positions.
#pragma once

#include <cstring>
#include <vector>

#include "trireme/codec/bits.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {

inline std::size_t sparse_max_bytes(std::size_t count, std::size_t size) {
  return 4 + 4 * count + rice_max_bytes(count, size);
}

// Gives the bytes written; the positions have the parameter rice_parameter(chosen.size(), from.size()).
inline std::size_t write_sparse(std::span<const float> from, const std::vector<std::uint32_t>& chosen,
                                MutByteView out) {
  const auto count = static_cast<std::uint32_t>(chosen.size());
  std::memcpy(out.data(), &count, sizeof(count));
  std::size_t written = sizeof(count);
  for (const std::uint32_t at : chosen) {
    std::memcpy(out.data() + written, &from[at], sizeof(float));
    written += sizeof(float);
  }
  return written + write_positions(chosen, rice_parameter(chosen.size(), from.size()), out.subspan(written));
}

// out += decoded.
inline Status add_sparse(std::string_view codec, ByteView encoded, unsigned parameter, std::span<float> out) {
  std::uint32_t count = 0;
  if (!take_le(encoded, count) || count > out.size() || encoded.size() / sizeof(float) < count)
    return corrupt(codec, "it is cut off, or has more values than the tensor");
  const ByteView values = encoded.subspan(0, count * sizeof(float));
  const bool right = read_positions(encoded.subspan(values.size()), parameter, count, out.size(),
                                    [&](std::uint32_t i, std::size_t at) {
                                      float v = 0;
                                      std::memcpy(&v, values.data() + i * sizeof(float), sizeof(v));
                                      out[at] += v;
                                    });
  return right ? Status() : corrupt(codec, "a position out of range, or bytes left over");
}

}  // namespace trireme::codec
