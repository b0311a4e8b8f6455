// Safetensors: named tensors in one file, readable by the public `safetensors` package. Layout:
// docs/format_checkpoint.md. Bytes in, bytes out: no files here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/tensor/tensor.h"

namespace trireme::io {

using NamedTensor = std::pair<std::string, Tensor>;
using NamedTensors = std::vector<NamedTensor>;

std::string_view file_dtype_name(DType dtype);  // "F32", "BOOL"...
Result<DType> parse_file_dtype(std::string_view name);

// Tensors are written in the given order, row-major; names must be unique. Phantom tensors are refused.
Result<Bytes> encode_safetensors(const NamedTensors& tensors);
// What stands before the data: the data of a tensor begins where the one before it ends.
using NamedType = std::pair<std::string, TensorType>;
Result<Bytes> encode_safetensors_header(std::span<const NamedType> tensors);

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0, end = 0;  // in the file
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;                      // as the header has them
  std::vector<std::pair<std::string, std::string>> metadata;  // texts of other programs
};
// `bytes` is the whole file: that the tensors fill it is checked too.
Result<SafetensorsHeader> decode_safetensors_header(ByteView bytes);

// Safe on hostile bytes: every length, offset, shape and type is checked before use. The tensors own copies.
Result<NamedTensors> decode_safetensors(ByteView bytes);

// Hash of parameters in name order: for each its name, a zero byte, the dtype's name, a zero byte, the rank
// and the dimensions as little-endian u64, and the row-major bytes. Equal models have equal hashes on every
// machine.
std::string parameters_sha256(NamedTensors tensors);
// What comes before a tensor's bytes there.
Bytes parameters_head(std::string_view name, const TensorType& type);

}  // namespace trireme::io
