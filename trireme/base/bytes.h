// Byte views and little-endian reading and writing for file and wire formats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "formats are written by memcpy on little-endian machines");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using MutByteView = std::span<std::byte>;

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

template <typename T>
requires std::is_trivially_copyable_v<T>
void append_le(Bytes& out, const T& value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), view.begin(), view.end());
}

// Takes a T from the front of `in`; false (and `in` unchanged) when too few bytes are left.
template <typename T>
requires std::is_trivially_copyable_v<T>
bool take_le(ByteView& in, T& value) {
  if (in.size() < sizeof(T)) return false;
  std::memcpy(&value, in.data(), sizeof(T));
  in = in.subspan(sizeof(T));
  return true;
}

// lower-case hexadecimal of bytes
std::string to_hex(ByteView bytes);

}  // namespace trireme
