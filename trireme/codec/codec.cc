#include "trireme/codec/codec.h"

#include <algorithm>

#include "trireme/codec/wire.h"

namespace trireme::codec {

std::string_view bound_name(Bound bound) {
  switch (bound) {
    case Bound::kExact:
      return "exact";
    case Bound::kRounding:
      return "rounding";
    case Bound::kUnbiased:
      return "unbiased";
    case Bound::kContraction:
      return "contraction";
    case Bound::kFeedback:
      return "feedback";
  }
  return "";
}

Status Codec::decode(ByteView encoded, std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0F);
  return add(encoded, out);
}

Result<Header> take_header(ByteView& in, std::uint8_t wire_id, std::size_t count) {
  Header h;
  if (!take_le(in, h))
    return error(Code::kCorrupt, "[codec] an encoding is cut off: got {} bytes, expected a header of {}",
                 in.size(), sizeof(Header));
  if (h.wire_id != wire_id || h.zero != 0 || h.count != static_cast<std::uint32_t>(count))
    return error(Code::kCorrupt, "[codec] another encoding: got id {} and {} values, expected id {} and {}",
                 h.wire_id, h.count, wire_id, static_cast<std::uint32_t>(count));
  return h;
}

Status wrong_length(std::string_view codec, std::size_t got, std::size_t expected) {
  return error(Code::kCorrupt, "[codec] {}: got {} bytes after the header, expected {}", codec, got,
               expected);
}

Status corrupt(std::string_view codec, std::string_view what) {
  return error(Code::kCorrupt, "[codec] {}: {}; the encoding is damaged", codec, what);
}

}  // namespace trireme::codec
