#include "trireme/data/read/npy.h"

#include <algorithm>

#include "trireme/data/read/npy_header.h"
#include "trireme/data/read/zip.h"
#include "trireme/tensor/half.h"

namespace trireme::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

template <typename T>
T load(const std::byte* from, bool swapped) {
  T value;
  std::byte bytes[sizeof(T)];
  if (swapped)
    std::reverse_copy(from, from + sizeof(T), bytes);
  else
    std::copy(from, from + sizeof(T), bytes);
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename From, typename To>
void convert(const std::byte* from, bool swapped, std::byte* to) {
  const To value = static_cast<To>(load<From>(from, swapped));
  std::memcpy(to, &value, sizeof(To));
}

void convert_half(const std::byte* from, bool swapped, std::byte* to) {
  const float value = f16_value(load<std::uint16_t>(from, swapped));
  std::memcpy(to, &value, sizeof(value));
}

struct NpyType {
  std::string_view name;  // descr without its byte order
  std::size_t file_bytes;
  DType dtype;
  void (*convert)(const std::byte*, bool, std::byte*);
  bool same;  // what is in the file is what is kept
};
// "u8" are 64 bits, wider than any integer here: labels and features stay exact below 2^53.
constexpr NpyType kTypes[] = {
    {"b1", 1, DType::kU8, convert<std::uint8_t, std::uint8_t>, true},
    {"u1", 1, DType::kU8, convert<std::uint8_t, std::uint8_t>, true},
    {"i1", 1, DType::kI32, convert<std::int8_t, std::int32_t>, false},
    {"i2", 2, DType::kI32, convert<std::int16_t, std::int32_t>, false},
    {"u2", 2, DType::kI32, convert<std::uint16_t, std::int32_t>, false},
    {"i4", 4, DType::kI32, convert<std::int32_t, std::int32_t>, true},
    {"u4", 4, DType::kI64, convert<std::uint32_t, std::int64_t>, false},
    {"i8", 8, DType::kI64, convert<std::int64_t, std::int64_t>, true},
    {"u8", 8, DType::kF64, convert<std::uint64_t, double>, false},
    {"f2", 2, DType::kF32, convert_half, false},
    {"f4", 4, DType::kF32, convert<float, float>, true},
    {"f8", 8, DType::kF64, convert<double, double>, true},
};

// Where element i of the row-major result lies in the file.
std::int64_t fortran_index(const Shape& shape, std::int64_t i) {
  std::int64_t index = 0, stride = shape.num_elems();
  for (int d = shape.rank() - 1; d >= 0; --d) {
    stride /= shape[d];
    index += i % shape[d] * stride;
    i /= shape[d];
  }
  return index;
}

Bytes decode(const NpyType& type, bool swapped, bool fortran, const Shape& shape, ByteView values) {
  const std::int64_t count = shape.num_elems();
  const std::size_t size = dtype_size(type.dtype);
  if (!swapped && !fortran && type.same) return {values.begin(), values.end()};
  Bytes out(static_cast<std::size_t>(count) * size);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = fortran ? fortran_index(shape, i) : i;
    type.convert(values.data() + static_cast<std::size_t>(from) * type.file_bytes, swapped,
                 out.data() + static_cast<std::size_t>(i) * size);
  }
  return out;
}

// Where the header's text lies.
struct HeaderPlace {
  std::size_t offset, size;
};
Result<HeaderPlace> find_header(ByteView bytes, std::string_view source) {
  const auto fail = [&](std::size_t offset, std::string_view what) {
    return error(Code::kCorrupt, "[data] {}, offset {}: {}; is it an NPY file?", source, offset, what);
  };
  const std::size_t same = std::min(bytes.size(), kMagic.size());
  if (as_text(bytes.first(same)) != kMagic.substr(0, same))
    return fail(0, "it does not begin with \\x93NUMPY");
  if (bytes.size() < 10) return fail(bytes.size(), "the file ends within its first 10 bytes");
  const auto version = static_cast<unsigned>(bytes[6]);
  if (version < 1 || version > 3) return fail(6, fmt::format("version {}, expected 1 to 3", version));
  HeaderPlace place{10, load<std::uint16_t>(bytes.data() + 8, false)};
  if (version > 1) {
    if (bytes.size() < 12) return fail(bytes.size(), "the file ends within its first 12 bytes");
    place = {12, load<std::uint32_t>(bytes.data() + 8, false)};
  }
  if (bytes.size() - place.offset < place.size)
    return fail(bytes.size(), fmt::format("the file ends within its header of {} bytes", place.size));
  return place;
}

}  // namespace

Result<FileArray> parse_npy(ByteView bytes, std::string_view source) {
  TR_ASSIGN_OR_RETURN(const HeaderPlace place, find_header(bytes, source));
  TR_ASSIGN_OR_RETURN(
      const NpyHeader header,
      parse_npy_header(as_text(bytes.subspan(place.offset, place.size)), source, place.offset));
  const auto fail = [&](std::size_t offset, std::string_view what) {
    return error(Code::kCorrupt, "[data] {}, offset {}: {}", source, offset, what);
  };
  const std::string_view descr = header.descr;
  const NpyType* type = std::end(kTypes);
  if (!descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos)
    type = std::ranges::find(kTypes, descr.substr(1), &NpyType::name);
  if (type == std::end(kTypes))
    return fail(place.offset,
                fmt::format("values of type '{}' are not read; save booleans, integers or floats", descr));
  const auto shape = Shape::checked(header.shape);
  if (!shape.ok()) return fail(place.offset, shape.status().message());
  const std::size_t begin = place.offset + place.size, have = bytes.size() - begin;
  const auto count = static_cast<std::uint64_t>(shape->num_elems());
  if (have / type->file_bytes < count)
    return fail(bytes.size(),
                fmt::format("the file ends early: got {} bytes of values, expected {} of {} bytes", have,
                            count, type->file_bytes));
  if (have != count * type->file_bytes)
    return fail(begin + count * type->file_bytes,
                fmt::format("{} bytes after the last value", have - count * type->file_bytes));
  FileArray array{{type->dtype, *shape}, {}};
  array.bytes = decode(*type, descr[0] == '>', header.fortran_order, *shape, bytes.subspan(begin));
  return array;
}

Result<NamedArrays> parse_npz(ByteView bytes, std::string_view source, std::size_t max_bytes) {
  TR_ASSIGN_OR_RETURN(const auto members, parse_zip(bytes, source, max_bytes));
  NamedArrays arrays;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(".npy")) continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    TR_ASSIGN_OR_RETURN(FileArray array, parse_npy(member.bytes, fmt::format("{}({})", source, member.name)));
    if (std::ranges::find(arrays, name, &NamedArrays::value_type::first) != arrays.end())
      return error(Code::kCorrupt, "[data] {}: two arrays named '{}'", source, name);
    arrays.emplace_back(std::move(name), std::move(array));
  }
  if (arrays.empty()) return error(Code::kCorrupt, "[data] {}, offset 0: no arrays in the archive", source);
  return arrays;
}

}  // namespace trireme::data
