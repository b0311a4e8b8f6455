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
constexpr const char* kMetadata = "__metadata__";       // an entry of texts, no tensor
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

using Offsets = std::pair<std::uint64_t, std::uint64_t>;

Result<Tensor> decode_entry(const std::string& name, const Json& entry, ByteView data, Offsets& range) {
  if (!entry.is_object()) return error(Code::kCorrupt, "[safetensors] entry '{}' is not an object", name);
  TR_ASSIGN_OR_RETURN(const auto type_name, json_get<std::string>(entry, "dtype"));
  TR_ASSIGN_OR_RETURN(const auto dims, json_get<std::vector<std::int64_t>>(entry, "shape"));
  TR_ASSIGN_OR_RETURN(const auto offsets, json_get<std::vector<std::uint64_t>>(entry, "data_offsets"));
  TensorType type;
  TR_ASSIGN_OR_RETURN(type.dtype, parse_file_type(type_name));
  const Result<Shape> shape = Shape::checked(dims);
  if (!shape.ok())
    return error(Code::kCorrupt, "[safetensors] tensor '{}': {}", name, shape.status().message());
  type.shape = *shape;
  const bool in_file = offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data.size();
  // The count is compared first: the bytes of 2^62 elements do not fit a u64.
  const bool countable = type.shape.num_elems() <= static_cast<std::int64_t>(data.size());
  if (!in_file || !countable || offsets[1] - offsets[0] != type.num_bytes())
    return error(Code::kCorrupt, "[safetensors] tensor '{}' ({}) does not fit its data offsets", name,
                 type.to_string());
  range = {offsets[0], offsets[1]};
  const ByteView bytes = data.subspan(offsets[0], type.num_bytes());
  const auto is_truth = [](std::byte b) { return b <= std::byte{1}; };
  if (type.dtype == DType::kBool && !std::all_of(bytes.begin(), bytes.end(), is_truth))
    return error(Code::kCorrupt, "[safetensors] tensor '{}' holds a bool that is neither 0 nor 1", name);
  TR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(cpu_device(), type));
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

// The tensors lie back to back and fill the data, as the public package demands: no byte is read twice, none
// is unaccounted for.
bool fills(std::vector<Offsets> ranges, std::uint64_t data_bytes) {
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) return false;
    at = end;
  }
  return at == data_bytes;
}

}  // namespace

Result<Bytes> encode_safetensors(const NamedTensors& tensors) {
  Json header = Json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_phantom())
      return error(Code::kInvalid, "[safetensors] tensor '{}' is a phantom: it has no bytes", name);
    if (name == kMetadata)
      return error(Code::kInvalid, "[safetensors] the format keeps the name '{}' for itself", name);
    if (header.contains(name)) return error(Code::kInvalid, "[safetensors] tensor '{}' is there twice", name);
    const auto dims = tensor.shape().dims();
    const std::uint64_t bytes = tensor.type().num_bytes();
    header[name] = {{"dtype", file_type_name(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kInvalid, "[safetensors] a tensor's name is not UTF-8: {}", e.what());
  }
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
  std::vector<Offsets> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    TR_ASSIGN_OR_RETURN(Tensor tensor, decode_entry(name, entry, data, ranges.emplace_back()));
    tensors.emplace_back(name, std::move(tensor));
  }
  if (!fills(std::move(ranges), data.size()))
    return error(Code::kCorrupt, "[safetensors] the tensors' data offsets overlap or leave bytes out");
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
