#include "trireme/data/file_array.h"

#include <cmath>

namespace trireme::data {
namespace {

template <typename T>
T value_at(const FileArray& array, std::size_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double number_at(const FileArray& array, std::size_t i) {
  switch (array.type.dtype) {
    case DType::kU8:
      return value_at<std::uint8_t>(array, i);
    case DType::kI32:
      return value_at<std::int32_t>(array, i);
    case DType::kI64:
      return static_cast<double>(value_at<std::int64_t>(array, i));
    case DType::kF32:
      return static_cast<double>(value_at<float>(array, i));
    case DType::kF64:
      return value_at<double>(array, i);
    default:
      TR_CHECK(false, "an Array of {}", dtype_name(array.type.dtype));
  }
  return 0;
}

Shape sample_shape_of(const Shape& shape) {
  if (shape.rank() == 1) return {1};
  if (shape.rank() == 3) return {1, shape[1], shape[2]};
  return Shape(shape.dims().subspan(1));
}

}  // namespace

Result<std::vector<float>> to_floats(const FileArray& array, std::string_view source) {
  const auto count = static_cast<std::size_t>(array.type.shape.num_elems());
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(number_at(array, i));
    if (!std::isfinite(out[i]))
      return error(Code::kCorrupt, "[data] {}: value {} is {}, expected a finite f32", source, i,
                   number_at(array, i));
  }
  return out;
}

Result<std::vector<std::int32_t>> to_labels(const FileArray& array, std::string_view source,
                                            std::int32_t limit) {
  if (array.type.shape.rank() != 1)
    return error(Code::kCorrupt, "[data] {}: labels of shape {}, expected one number per sample", source,
                 array.type.shape.to_string());
  const auto count = static_cast<std::size_t>(array.type.shape.num_elems());
  std::vector<std::int32_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = number_at(array, i);
    if (!(value >= 0 && value < limit) || value != std::floor(value))
      return error(Code::kCorrupt, "[data] {}: label {} is {}, expected an integer from 0 to {}{}", source, i,
                   value, limit - 1,
                   value == std::floor(value)
                       ? ""
                       : "; targets that are not classes (regression) are not supported yet");
    out[i] = static_cast<std::int32_t>(value);
  }
  return out;
}

std::optional<FileArray> to_byte_array(const FileArray& array) {
  const auto count = static_cast<std::size_t>(array.type.shape.num_elems());
  FileArray out{{DType::kU8, array.type.shape}, Bytes(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const double value = number_at(array, i);
    if (!(value >= 0 && value <= 255) || value != std::floor(value)) return std::nullopt;
    out.bytes[i] = static_cast<std::byte>(static_cast<std::uint8_t>(value));
  }
  return out;
}

Status append_arrays(Dataset& set, const LabelledArrays& part) {
  const FileArray& samples = *part.samples;
  if (samples.type.shape.rank() < 1 || samples.type.shape.num_elems() == 0)
    return error(Code::kCorrupt, "[data] {}: no samples in shape {}", part.samples_source,
                 samples.type.shape.to_string());
  const Shape shape = sample_shape_of(samples.type.shape);
  const DType dtype = samples.type.dtype == DType::kU8 ? DType::kU8 : DType::kF32;
  const bool first = set.pixels.empty() && set.features.empty();
  if (first) {
    set.sample_shape = shape;
    set.dtype = dtype;
    set.label_kind = part.labels != nullptr ? Labels::kClass : Labels::kNone;
  }
  if (!(shape == set.sample_shape) || dtype != set.dtype)
    return error(Code::kCorrupt, "[data] {}: got samples {}{}, expected {}{} as in the first file",
                 part.samples_source, dtype_name(dtype), shape.to_string(), dtype_name(set.dtype),
                 set.sample_shape.to_string());
  if ((part.labels != nullptr) != (set.label_kind == Labels::kClass))
    return error(Code::kCorrupt, "[data] {}: some files have labels and others not", part.samples_source);
  if (part.labels != nullptr) {
    TR_ASSIGN_OR_RETURN(const auto labels, to_labels(*part.labels, part.labels_source, kMaxClasses));
    if (static_cast<std::int64_t>(labels.size()) != samples.type.shape[0])
      return error(Code::kCorrupt, "[data] {}: {} labels, but {} has {} samples", part.labels_source,
                   labels.size(), part.samples_source, samples.type.shape[0]);
    set.labels.insert(set.labels.end(), labels.begin(), labels.end());
  }
  if (dtype == DType::kU8) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(samples.bytes.data());
    set.pixels.append({from, samples.bytes.size()});
  } else {
    TR_ASSIGN_OR_RETURN(const auto values, to_floats(samples, part.samples_source));
    set.features.insert(set.features.end(), values.begin(), values.end());
  }
  return {};
}

}  // namespace trireme::data
