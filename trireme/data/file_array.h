// FileArray: what the readers of array files (IDX, NPY) give: a shape and little-endian row-major values.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/data/dataset.h"
#include "trireme/tensor/shape.h"

namespace trireme::data {

// Integers narrower than 32 bits other than u8 are widened to i32 by the readers.
struct FileArray {
  TensorType type;  // kU8, kI32, kI64, kF32 or kF64
  Bytes bytes;      // type.num_bytes() of them
};

// The values as f32. kInvalid names `source` and the first value that is not finite.
Result<std::vector<float>> to_floats(const FileArray& array, std::string_view source);
// One-dimensional whole numbers from 0 below `limit` (floats that are whole count too). kCorrupt names the
// first value that is not.
Result<std::vector<std::int32_t>> to_labels(const FileArray& array, std::string_view source,
                                            std::int32_t limit);

// The same values as kU8. Nothing: some are not integers from 0 to 255.
std::optional<FileArray> to_byte_array(const FileArray& array);

// Appends samples (the first dimension counts them) and labels to a set whose first part this is, or one with
// the same sample shape and type. Pictures [N, H, W] become [N, 1, H, W]. Bytes stay bytes, all else becomes
// f32. Null labels: none. kCorrupt names the source of what does not fit.
struct LabelledArrays {
  const FileArray* samples = nullptr;
  const FileArray* labels = nullptr;
  std::string_view samples_source, labels_source;
};
Status append_arrays(Dataset& set, const LabelledArrays& part);

inline constexpr std::int32_t kMaxClasses = 1 << 20;

}  // namespace trireme::data
