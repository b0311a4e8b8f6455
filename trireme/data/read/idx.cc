#include "trireme/data/read/idx.h"

#include <algorithm>

namespace trireme::data {
namespace {

struct IdxType {
  std::uint8_t code;
  std::size_t file_bytes;
  DType dtype;
};
constexpr IdxType kTypes[] = {{0x08, 1, DType::kU8},  {0x09, 1, DType::kI32}, {0x0B, 2, DType::kI32},
                              {0x0C, 4, DType::kI32}, {0x0D, 4, DType::kF32}, {0x0E, 8, DType::kF64}};

template <typename T>
T big_endian(const std::byte* from) {
  T value;
  std::byte swapped[sizeof(T)];
  std::reverse_copy(from, from + sizeof(T), swapped);
  std::memcpy(&value, swapped, sizeof(T));
  return value;
}

template <typename From, typename To>
void append_values(ByteView in, Bytes& out) {
  for (std::size_t at = 0; at < in.size(); at += sizeof(From))
    append_le(out, static_cast<To>(big_endian<From>(in.data() + at)));
}

Bytes decode(std::uint8_t code, ByteView values, std::size_t num_bytes) {
  if (code == 0x08) return {values.begin(), values.end()};
  Bytes out;
  out.reserve(num_bytes);
  switch (code) {
    case 0x09:
      append_values<std::int8_t, std::int32_t>(values, out);
      break;
    case 0x0B:
      append_values<std::int16_t, std::int32_t>(values, out);
      break;
    case 0x0C:
      append_values<std::int32_t, std::int32_t>(values, out);
      break;
    case 0x0D:
      append_values<float, float>(values, out);
      break;
    default:
      append_values<double, double>(values, out);
  }
  return out;
}

}  // namespace

Result<FileArray> parse_idx(ByteView bytes, std::string_view source) {
  const auto fail = [&](std::size_t offset, std::string what) {
    return error(Code::kCorrupt, "[data] {}, offset {}: {}; is it an IDX file?", source, offset, what);
  };
  if (bytes.size() < 4) return fail(bytes.size(), "the file ends within its first 4 bytes");
  if (bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) return fail(0, "got no two zero bytes");
  const auto code = static_cast<std::uint8_t>(bytes[2]);
  const auto* type = std::ranges::find(kTypes, code, &IdxType::code);
  if (type == std::end(kTypes)) return fail(2, fmt::format("unknown value type {:#04x}", code));
  const auto rank = static_cast<std::size_t>(bytes[3]);
  if (rank < 1 || rank > static_cast<std::size_t>(kMaxRank))
    return fail(3, fmt::format("got {} dimensions, expected 1 to {}", rank, kMaxRank));
  const std::size_t header = 4 + 4 * rank;
  if (bytes.size() < header) return fail(bytes.size(), "the file ends within its dimensions");
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) dims.push_back(big_endian<std::uint32_t>(bytes.data() + 4 + 4 * i));
  const auto shape = Shape::checked(dims);
  if (!shape.ok()) return fail(4, shape.status().message());
  const auto count = static_cast<std::uint64_t>(shape->num_elems());
  const std::size_t have = bytes.size() - header;
  if (have / type->file_bytes < count)
    return fail(bytes.size(),
                fmt::format("the file ends early: got {} bytes of values, expected {} of {} bytes", have,
                            count, type->file_bytes));
  if (have != count * type->file_bytes)
    return fail(header + count * type->file_bytes,
                fmt::format("{} bytes after the last value", have - count * type->file_bytes));
  FileArray array{{type->dtype, *shape}, {}};
  array.bytes = decode(code, bytes.subspan(header), array.type.num_bytes());
  return array;
}

}  // namespace trireme::data
