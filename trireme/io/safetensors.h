// Safetensors: named tensors in one file, readable by the public `safetensors` package. Layout:
// docs/format_checkpoint.md. Bytes in, bytes out: no files here.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/tensor/tensor.h"

namespace trireme::io {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Tensors are written in the given order, row-major; names must be unique. Phantom tensors are refused.
Result<Bytes> encode_safetensors(const NamedTensors& tensors);

// Safe on hostile bytes: every length, offset, shape and type is checked before use. The tensors own copies.
Result<NamedTensors> decode_safetensors(ByteView bytes);

// Hash of parameters in name order: for each its name, a zero byte, the dtype's name, a zero byte, the rank
// and the dimensions as little-endian u64, and the row-major bytes. Equal models have equal hashes on every
// machine.
std::string parameters_sha256(NamedTensors tensors);

}  // namespace trireme::io
