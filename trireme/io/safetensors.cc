#include "trireme/io/safetensors.h"

#include <algorithm>
#include <array>

#include "trireme/base/hash.h"
#include "trireme/base/json.h"

namespace trireme::io {
namespace {

constexpr std::array<std::pair<DType, const char*>, 8> kTypeNames{{{DType::kF32, "F32"},
                                                                   {DType::kF64, "F64"},
                                                                   {DType::kBF16, "BF16"},
                                                                   {DType::kF16, "F16"},
                                                                   {DType::kI64, "I64"},
                                                                   {DType::kI32, "I32"},
                                                                   {DType::kU8, "U8"},
                                                                   {DType::kBool, "BOOL"}}};
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the public package's own limit

const char* file_type_name(DType dtype) {
  for (const auto& [type, name] : kTypeNames)
    if (type == dtype) return name;
  return "?";
}

Result<DType> parse_file_type(const std::string& text) {
  for (const auto& [type, name] : kTypeNames)
    if (text == name) return type;
  return error(Code::kCorrupt, "[safetensors] unknown dtype '{}'", text);
}

Result<Tensor> decode_entry(const std::string& name, const Json& entry, ByteView data) {
  if (!entry.is_object()) return error(Code::kCorrupt, "[safetensors] entry '{}' is not an object", name);
  TR_ASSIGN_OR_RETURN(const auto type_name, json_get<std::string>(entry, "dtype"));
  TR_ASSIGN_OR_RETURN(const auto dims, json_get<std::vector<std::int64_t>>(entry, "shape"));
  TR_ASSIGN_OR_RETURN(const auto offsets, json_get<std::vector<std::uint64_t>>(entry, "data_offsets"));
  TensorType type;
  TR_ASSIGN_OR_RETURN(type.dtype, parse_file_type(type_name));
  TR_ASSIGN_OR_RETURN(type.shape, Shape::checked(dims));
  const bool in_file = offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data.size();
  if (!in_file || offsets[1] - offsets[0] != type.num_bytes())
    return error(Code::kCorrupt, "[safetensors] tensor '{}' ({}) does not fit its data offsets", name,
                 type.to_string());
  TR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(cpu_device(), type));
  if (type.num_bytes() > 0) std::memcpy(tensor.raw(), data.data() + offsets[0], type.num_bytes());
  return tensor;
}

}  // namespace

Result<Bytes> encode_safetensors(const NamedTensors& tensors) {
  Json header = Json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_phantom())
      return error(Code::kInvalid, "[safetensors] tensor '{}' is a phantom: it has no bytes", name);
    if (header.contains(name)) return error(Code::kInvalid, "[safetensors] tensor '{}' is there twice", name);
    const auto dims = tensor.shape().dims();
    const std::uint64_t bytes = tensor.type().num_bytes();
    header[name] = {{"dtype", file_type_name(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // data begins 8-byte aligned
  Bytes out;
  out.reserve(8 + text.size() + offset);
  append_le(out, static_cast<std::uint64_t>(text.size()));
  const ByteView text_bytes = as_bytes(text);
  out.insert(out.end(), text_bytes.begin(), text_bytes.end());
  for (const auto& [name, tensor] : tensors) {
    Tensor rows = tensor;
    if (!tensor.is_contiguous()) {
      TR_ASSIGN_OR_RETURN(rows, Tensor::allocate(cpu_device(), tensor.type()));
      copy_to_contiguous(tensor, rows);
    }
    out.insert(out.end(), rows.raw(), rows.raw() + rows.type().num_bytes());
  }
  return out;
}

Result<NamedTensors> decode_safetensors(ByteView bytes) {
  std::uint64_t header_bytes = 0;
  if (!take_le(bytes, header_bytes) || header_bytes > bytes.size() || header_bytes > kMaxHeaderBytes)
    return error(Code::kCorrupt, "[safetensors] the file is shorter than its header says");
  TR_ASSIGN_OR_RETURN(const Json header,
                      parse_json(as_text(bytes.first(header_bytes)), "the safetensors header"));
  if (!header.is_object()) return error(Code::kCorrupt, "[safetensors] the header is not an object");
  const ByteView data = bytes.subspan(header_bytes);
  NamedTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    TR_ASSIGN_OR_RETURN(Tensor tensor, decode_entry(name, entry, data));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

std::string parameters_sha256(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Sha256 hash;
  constexpr std::string_view kZero("\0", 1);
  for (const auto& [name, tensor] : tensors) {
    hash.update(name);
    hash.update(kZero);
    hash.update(dtype_name(tensor.dtype()));
    hash.update(kZero);
    Bytes shape;
    append_le(shape, static_cast<std::uint64_t>(tensor.shape().rank()));
    for (const std::int64_t d : tensor.shape().dims()) append_le(shape, static_cast<std::uint64_t>(d));
    hash.update(shape);
    Tensor rows = tensor;
    if (!tensor.is_contiguous()) {
      rows = *Tensor::allocate(cpu_device(), tensor.type());
      copy_to_contiguous(tensor, rows);
    }
    hash.update(ByteView(rows.raw(), rows.type().num_bytes()));
  }
  return hash.hex_digest();
}

}  // namespace trireme::io
