// The header of an encoding, 8 bytes: id of the codec, a byte of its own, two zero bytes, number of values
// (low 32 bits). Little-endian, as everything behind it.
#pragma once

#include "trireme/codec/codec.h"

namespace trireme::codec {

struct Header {
  std::uint8_t wire_id = 0, own = 0;
  std::uint16_t zero = 0;
  std::uint32_t count = 0;
};
static_assert(sizeof(Header) == 8);

inline std::size_t write_header(MutByteView out, std::uint8_t wire_id, std::uint8_t own, std::size_t count) {
  const Header h{wire_id, own, 0, static_cast<std::uint32_t>(count)};
  std::memcpy(out.data(), &h, sizeof(h));
  return sizeof(h);
}

// Takes the header off the front of `in`.
Result<Header> take_header(ByteView& in, std::uint8_t wire_id, std::size_t count);
Status wrong_length(std::string_view codec, std::size_t got, std::size_t expected);
Status corrupt(std::string_view codec, std::string_view what);

}  // namespace trireme::codec
