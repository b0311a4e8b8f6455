#include "trireme/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/base/json_numbers.h"

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
// Types of the format that the tensors of the project do not have.
constexpr std::array kForeignTypes{"I8",      "I16",     "U16", "U32",     "U64",
                                   "F8_E4M3", "F8_E5M2", "C64", "F8_E8M0", "F4"};
constexpr const char* kMetadata = "__metadata__";       // an entry of texts, no tensor
constexpr std::size_t kMaxEntryKeys = 16;               // three are known; a few more do no harm
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the public package's own limit

// The header as a map beside the order of its names: Json looks for a key by walking over all, which a file
// with a million names would turn into days.
struct HeaderJson {
  nlohmann::json object;
  std::vector<std::string> names;
};

// Notes the keys of the outermost object. (The library's own parser callback walks over all siblings of every
// value.)
class NameCollector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit NameCollector(std::vector<std::string>& names) : names_(names) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) names_.push_back(name);
    return true;
  }
  bool end_object() override { return depth_-- > 0; }
  bool start_array(std::size_t) override { return ++depth_ > 0; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  std::vector<std::string>& names_;
  int depth_ = 0;
};

Result<HeaderJson> parse_header(std::string_view text) {
  HeaderJson out;
  try {
    out.object = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    return error(Code::kCorrupt, "[safetensors] the header is not valid JSON at byte {} of the file: {}",
                 8 + e.byte, e.what());
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kCorrupt, "[safetensors] the header is not valid JSON: {}", e.what());
  }
  if (!out.object.is_object()) return error(Code::kCorrupt, "[safetensors] the header is not an object");
  NameCollector names(out.names);
  (void)nlohmann::json::sax_parse(text, &names);  // valid, as was seen above
  if (out.object.size() == out.names.size()) return out;
  std::sort(out.names.begin(), out.names.end());
  return error(Code::kCorrupt, "[safetensors] tensor '{}' is there twice",
               *std::adjacent_find(out.names.begin(), out.names.end()));
}

Result<SafetensorsEntry> decode_entry(const std::string& name, const Json& entry, std::uint64_t data_begin,
                                      std::uint64_t data_bytes) {
  TR_ASSIGN_OR_RETURN(const auto type_name, json_get<std::string>(entry, "dtype"));
  TR_ASSIGN_OR_RETURN(const auto dims, json_get_wholes<std::int64_t>(entry, "shape"));
  TR_ASSIGN_OR_RETURN(const auto offsets, json_get_wholes<std::uint64_t>(entry, "data_offsets"));
  SafetensorsEntry out;
  out.name = name;
  const Result<DType> dtype = parse_file_dtype(type_name);
  if (!dtype.ok()) return error(dtype.status().code(), "{} (tensor '{}')", dtype.status().message(), name);
  out.type.dtype = *dtype;
  const Result<Shape> shape = Shape::checked(dims);
  if (!shape.ok())
    return error(Code::kCorrupt, "[safetensors] tensor '{}': {}", name, shape.status().message());
  out.type.shape = *shape;
  const bool in_file = offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_bytes;
  // The count is compared first: the bytes of 2^62 elements do not fit a u64.
  const bool countable = out.type.shape.num_elems() <= static_cast<std::int64_t>(data_bytes);
  if (!in_file || !countable || offsets[1] - offsets[0] != out.type.num_bytes())
    return error(Code::kCorrupt, "[safetensors] tensor '{}' ({}) does not fit its data offsets", name,
                 out.type.to_string());
  out.begin = data_begin + offsets[0];
  out.end = data_begin + offsets[1];
  return out;
}

Result<Tensor> copy_tensor(const SafetensorsEntry& entry, ByteView bytes) {
  const auto is_truth = [](std::byte b) { return b <= std::byte{1}; };
  if (entry.type.dtype == DType::kBool && !std::all_of(bytes.begin(), bytes.end(), is_truth))
    return error(Code::kCorrupt, "[safetensors] tensor '{}' holds a bool that is neither 0 nor 1",
                 entry.name);
  TR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::allocate(cpu_device(), entry.type));
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

// The tensors lie back to back and fill the data, as the public package demands: no byte is read twice, none
// is unaccounted for.
bool fills(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_begin,
           std::uint64_t end_of_file) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  ranges.reserve(entries.size());
  for (const SafetensorsEntry& e : entries) ranges.emplace_back(e.begin, e.end);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = data_begin;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) return false;
    at = end;
  }
  return at == end_of_file;
}

}  // namespace

std::string_view file_dtype_name(DType dtype) {
  for (const auto& [type, name] : kTypeNames)
    if (type == dtype) return name;
  return "?";
}

Result<DType> parse_file_dtype(std::string_view text) {
  for (const auto& [type, name] : kTypeNames)
    if (text == name) return type;
  for (const char* name : kForeignTypes)
    if (text == name)
      return error(Code::kInvalid, "[safetensors] dtype {} is not supported; convert the tensor to F32",
                   text);
  return error(Code::kCorrupt, "[safetensors] unknown dtype '{}'", text);
}

Result<Bytes> encode_safetensors_header(std::span<const NamedType> tensors) {
  std::set<std::string_view> names;
  std::string text = "{";
  std::uint64_t offset = 0;
  for (const auto& [name, type] : tensors) {
    if (name == kMetadata)
      return error(Code::kInvalid, "[safetensors] the format keeps the name '{}' for itself", name);
    if (!names.insert(name).second)
      return error(Code::kInvalid, "[safetensors] tensor '{}' is there twice", name);
    const std::uint64_t bytes = type.num_bytes();
    TR_ASSIGN_OR_RETURN(const std::string quoted, dump_utf8(Json(name), -1, "safetensors"));
    text += (names.size() > 1 ? "," : "") + quoted;
    text +=
        fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", file_dtype_name(type.dtype),
                    fmt::join(type.shape.dims(), ","), offset, offset + bytes);
    offset += bytes;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');  // data begins 8-byte aligned
  if (text.size() > kMaxHeaderBytes)
    return error(Code::kInvalid, "[safetensors] the header has {} bytes, at most {} are allowed", text.size(),
                 kMaxHeaderBytes);
  Bytes out;
  append_le(out, static_cast<std::uint64_t>(text.size()));
  const ByteView text_bytes = as_bytes(text);
  out.insert(out.end(), text_bytes.begin(), text_bytes.end());
  return out;
}

Result<Bytes> encode_safetensors(const NamedTensors& tensors) {
  std::vector<NamedType> types;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_phantom())
      return error(Code::kInvalid, "[safetensors] tensor '{}' is a phantom: it has no bytes", name);
    types.emplace_back(name, tensor.type());
  }
  TR_ASSIGN_OR_RETURN(Bytes out, encode_safetensors_header(types));
  std::uint64_t all = out.size();
  for (const auto& [name, tensor] : tensors) all += tensor.type().num_bytes();
  out.reserve(all);
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

Result<SafetensorsHeader> decode_safetensors_header(ByteView bytes) {
  const std::uint64_t file_bytes = bytes.size();
  std::uint64_t header_bytes = 0;
  if (!take_le(bytes, header_bytes) || header_bytes > bytes.size() || header_bytes > kMaxHeaderBytes)
    return error(Code::kCorrupt, "[safetensors] the file is shorter than its header says");
  TR_ASSIGN_OR_RETURN(const HeaderJson json, parse_header(as_text(bytes.first(header_bytes))));
  const std::uint64_t data_begin = 8 + header_bytes;
  SafetensorsHeader out;
  for (const std::string& name : json.names) {
    const nlohmann::json& entry = json.object[name];
    if (name == kMetadata) {
      if (!entry.is_object()) continue;
      for (const auto& [key, value] : entry.items())
        if (value.is_string()) out.metadata.emplace_back(key, value.get<std::string>());
      continue;
    }
    if (!entry.is_object()) return error(Code::kCorrupt, "[safetensors] entry '{}' is not an object", name);
    if (entry.size() > kMaxEntryKeys)
      return error(Code::kCorrupt, "[safetensors] entry '{}' has {} keys, expected three", name,
                   entry.size());
    TR_ASSIGN_OR_RETURN(SafetensorsEntry decoded,
                        decode_entry(name, Json(entry), data_begin, file_bytes - data_begin));
    out.tensors.push_back(std::move(decoded));
  }
  if (!fills(out.tensors, data_begin, file_bytes))
    return error(Code::kCorrupt, "[safetensors] the tensors' data offsets overlap or leave bytes out");
  return out;
}

Result<NamedTensors> decode_safetensors(ByteView bytes) {
  TR_ASSIGN_OR_RETURN(const SafetensorsHeader header, decode_safetensors_header(bytes));
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : header.tensors) {
    TR_ASSIGN_OR_RETURN(Tensor tensor,
                        copy_tensor(entry, bytes.subspan(entry.begin, entry.end - entry.begin)));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

Bytes parameters_head(std::string_view name, const TensorType& type) {
  Bytes head = to_bytes(name);
  head.push_back(std::byte{0});
  const ByteView dtype = as_bytes(dtype_name(type.dtype));
  head.insert(head.end(), dtype.begin(), dtype.end());
  head.push_back(std::byte{0});
  append_le(head, static_cast<std::uint64_t>(type.shape.rank()));
  for (const std::int64_t d : type.shape.dims()) append_le(head, static_cast<std::uint64_t>(d));
  return head;
}

std::string parameters_sha256(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    hash.update(parameters_head(name, tensor.type()));
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
