#include "trireme/io/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trireme/base/hash.h"
#include "trireme/base/json_numbers.h"
#include "trireme/io/shards.h"

namespace trireme::io {
namespace {

constexpr const char* kVersion1File = "tensors.safetensors";

Status corrupt(std::string_view source, std::string_view what) {
  return error(Code::kCorrupt, "[checkpoint] {}: {}", source, what);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The end of a manifest: the hash of all bytes before it.
std::string seal_of(std::string_view before) {
  return fmt::format(",\n  \"manifest_sha256\": \"{}\"\n}}\n", sha256_hex(as_bytes(before)));
}

bool is_sealed(std::string_view text) {
  const std::size_t seal_bytes = seal_of("").size();
  if (text.size() < seal_bytes) return false;
  const std::string_view before = text.substr(0, text.size() - seal_bytes);
  return text.substr(before.size()) == seal_of(before);
}

Result<ManifestFile> parse_file(const Json& entry) {
  ManifestFile file;
  TR_ASSIGN_OR_RETURN(file.name, json_get<std::string>(entry, "name"));
  TR_ASSIGN_OR_RETURN(file.bytes, json_get_whole<std::uint64_t>(entry, "bytes"));
  TR_ASSIGN_OR_RETURN(file.sha256, json_get<std::string>(entry, "sha256"));
  return file;
}

Result<parallel::Interval> parse_interval(const Json& entry, const char* key) {
  if (!entry.is_array() || entry.size() != 2)
    return error(Code::kCorrupt, "'{}' is not a pair of numbers", key);
  parallel::Interval interval;
  TR_ASSIGN_OR_RETURN(interval.begin, json_whole<std::int64_t>(entry[0], key));
  TR_ASSIGN_OR_RETURN(interval.end, json_whole<std::int64_t>(entry[1], key));
  return interval;
}

Status parse_piece(const Json& entry, ManifestTensor& tensor) {
  tensor.is_piece = true;
  TR_ASSIGN_OR_RETURN(tensor.sha256, json_get<std::string>(entry, "sha256"));
  if (!is_sha256(tensor.sha256))
    return error(Code::kCorrupt, "the hash of a piece of '{}' is not 64 hexadecimal digits", tensor.name);
  TR_ASSIGN_OR_RETURN(const Json box, json_get<Json>(entry, "box"));
  if (!box.is_array() || static_cast<int>(box.size()) != tensor.type.shape.rank())
    return error(Code::kCorrupt, "'box' of a piece of '{}' does not have one pair per dimension",
                 tensor.name);
  for (std::size_t d = 0; d < box.size(); ++d) {
    TR_ASSIGN_OR_RETURN(const parallel::Interval i, parse_interval(box[d], "box"));
    if (i.begin < 0 || i.begin > i.end || i.end > tensor.type.shape[static_cast<int>(d)])
      return error(Code::kCorrupt, "a piece of '{}' is not within {}", tensor.name, tensor.type.to_string());
    tensor.box.push_back(i);
  }
  tensor.range = {0, parallel::num_elems(tensor.box)};
  if (const auto range = entry.find("range"); range != entry.end()) {
    TR_ASSIGN_OR_RETURN(tensor.range, parse_interval(*range, "range"));
  }
  return {};
}

Result<ManifestTensor> parse_tensor(const Json& entry, const std::map<std::string, std::size_t>& files) {
  ManifestTensor tensor;
  TR_ASSIGN_OR_RETURN(tensor.name, json_get<std::string>(entry, "name"));
  TR_ASSIGN_OR_RETURN(const auto file, json_get<std::string>(entry, "file"));
  TR_ASSIGN_OR_RETURN(const auto dtype, json_get<std::string>(entry, "dtype"));
  TR_ASSIGN_OR_RETURN(const auto dims, json_get_wholes<std::int64_t>(entry, "shape"));
  const auto found = files.find(file);
  if (found == files.end())
    return error(Code::kCorrupt, "tensor '{}' is in file '{}', which is not listed", tensor.name, file);
  tensor.file = found->second;
  TR_ASSIGN_OR_RETURN(tensor.type.dtype, parse_file_dtype(dtype));
  TR_ASSIGN_OR_RETURN(tensor.type.shape, Shape::checked(dims));
  return tensor;
}

Status parse_files(const Json& list, Manifest& out) {
  if (!list.is_array() || list.empty()) return error(Code::kCorrupt, "'files' is not a list of files");
  for (const Json& entry : list) {
    if (!entry.is_object()) return error(Code::kCorrupt, "an entry of 'files' is not an object");
    TR_ASSIGN_OR_RETURN(ManifestFile file, parse_file(entry));
    const std::string expected = shard_name(out.files.size(), list.size());
    if (file.name != expected)
      return error(Code::kCorrupt, "file {} is named '{}', expected '{}'", out.files.size(), file.name,
                   expected);
    out.files.push_back(std::move(file));
  }
  return {};
}

// Pieces hold each element of their tensor once.
Status check_pieces(const Manifest& m) {
  std::map<std::string, std::vector<parallel::Piece>> tensors;
  for (const ManifestTensor& t : m.tensors) tensors[t.name].push_back(t.piece());
  for (const auto& [name, pieces] : tensors)
    if (const Status whole = parallel::check_cover(pieces); !whole.ok())
      return error(Code::kCorrupt, "tensor '{}': {}", name, whole.message());
  return {};
}

Status parse_tensors(const Json& list, Manifest& out) {
  if (!list.is_array()) return error(Code::kCorrupt, "'tensors' is not a list");
  std::map<std::string, std::size_t> files;
  for (const ManifestFile& file : out.files) files.emplace(file.name, files.size());
  for (const Json& entry : list) {
    if (!entry.is_object()) return error(Code::kCorrupt, "an entry of 'tensors' is not an object");
    TR_ASSIGN_OR_RETURN(ManifestTensor tensor, parse_tensor(entry, files));
    if (out.version == kManifestOfPieces) TR_RETURN_IF_ERROR(parse_piece(entry, tensor));
    if (!out.tensors.empty() && tensor.file < out.tensors.back().file)
      return error(Code::kCorrupt, "tensor '{}' is not in the order of the files", tensor.name);
    out.tensors.push_back(std::move(tensor));
  }
  return out.version == kManifestOfPieces ? check_pieces(out) : Status();
}

void add_piece(const ManifestTensor& t, Json& line) {
  const parallel::Piece piece = t.piece();
  Json box = Json::array();
  for (const parallel::Interval& i : piece.box) box.push_back({i.begin, i.end});
  line["box"] = std::move(box);
  if (!piece.is_box()) line["range"] = {piece.range.begin, piece.range.end};
  line["sha256"] = t.sha256;
}

// Version 1: one file, and nothing said of the tensors in it.
Status parse_version1(const Json& json, Manifest& out) {
  ManifestFile file;
  TR_ASSIGN_OR_RETURN(file.sha256, json_get<std::string>(json, "tensors_sha256"));
  TR_ASSIGN_OR_RETURN(file.bytes, json_get_whole<std::uint64_t>(json, "tensors_bytes"));
  file.name = kVersion1File;
  out.files.push_back(std::move(file));
  return {};
}

Result<Manifest> parse(const Json& json) {
  Manifest out;
  TR_ASSIGN_OR_RETURN(out.version, json_get_whole<int>(json, "version"));
  if (out.version < 1 || out.version > kManifestOfPieces)
    return error(Code::kCorrupt, "it has version {}, expected 1 to {}; a newer trireme wrote it", out.version,
                 kManifestOfPieces);
  TR_ASSIGN_OR_RETURN(out.step, json_get_whole<std::int64_t>(json, "step"));
  TR_ASSIGN_OR_RETURN(out.state, json_get<Json>(json, "state"));
  if (out.step < 0) return error(Code::kCorrupt, "'step' is {}, expected 0 or more", out.step);
  if (out.version == 1) {
    TR_RETURN_IF_ERROR(parse_version1(json, out));
  } else {
    TR_ASSIGN_OR_RETURN(const Json files, json_get<Json>(json, "files"));
    TR_ASSIGN_OR_RETURN(const Json tensors, json_get<Json>(json, "tensors"));
    TR_RETURN_IF_ERROR(parse_files(files, out));
    TR_RETURN_IF_ERROR(parse_tensors(tensors, out));
  }
  for (const ManifestFile& file : out.files)
    if (!is_sha256(file.sha256))
      return error(Code::kCorrupt, "the hash of '{}' is not 64 hexadecimal digits", file.name);
  return out;
}

}  // namespace

parallel::Piece ManifestTensor::piece() const {
  if (!is_piece) return parallel::Piece::of_whole(name, type);
  return {name, type, box, range};
}

std::string content_sha256(const Manifest& m) {
  std::string text;
  for (const ManifestFile& f : m.files) text += fmt::format("{} {} {}\n", f.name, f.bytes, f.sha256);
  for (const ManifestTensor& t : m.tensors)
    text += fmt::format("{} {} {} {}\n", t.piece().to_text(), t.type.to_string(), t.file, t.sha256);
  return sha256_hex(as_bytes(text));
}

// One line per file and tensor: readable, and short enough for thousands of them.
std::string manifest_text(const Manifest& m) {
  std::string text =
      fmt::format("{{\n  \"version\": {},\n  \"step\": {},\n  \"files\": [", m.version, m.step);
  for (const ManifestFile& f : m.files)
    text += fmt::format("{}\n    {}", &f == m.files.data() ? "" : ",",
                        Json{{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}}.dump());
  text += "\n  ],\n  \"tensors\": [";
  for (const ManifestTensor& t : m.tensors) {
    const auto dims = t.type.shape.dims();
    Json line = {{"name", t.name},
                 {"file", m.files[t.file].name},
                 {"dtype", file_dtype_name(t.type.dtype)},
                 {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}};
    if (m.version == kManifestOfPieces) add_piece(t, line);
    text += fmt::format("{}\n    {}", &t == m.tensors.data() ? "" : ",", line.dump());
  }
  text += "\n  ],\n  \"state\": " + m.state.dump();
  return text + seal_of(text);
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view source) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(text, source));
  Result<Manifest> manifest = parse(json);
  if (!manifest.ok()) return corrupt(source, manifest.status().message());
  if (manifest->version > 1 && !is_sealed(text))
    return corrupt(source, "its own hash, manifest_sha256, is missing or wrong; it was changed or damaged");
  return manifest;
}

Status check_tensors(const Manifest& m, std::size_t file, const NamedTensors& tensors) {
  if (m.version == 1) return {};
  const std::string& name = m.files[file].name;
  const auto in_file = [file](const ManifestTensor& t) { return t.file == file; };
  const auto first = std::find_if(m.tensors.begin(), m.tensors.end(), in_file);
  const auto count = static_cast<std::size_t>(std::count_if(m.tensors.begin(), m.tensors.end(), in_file));
  if (count != tensors.size())
    return corrupt(name, fmt::format("holds {} tensors, the manifest says {}", tensors.size(), count));
  for (std::size_t i = 0; i < count; ++i) {
    const ManifestTensor& said = first[static_cast<std::ptrdiff_t>(i)];
    const std::string expected = stored_name(said.piece());
    const TensorType type = stored_type(said.piece());
    if (expected != tensors[i].first || type != tensors[i].second.type())
      return corrupt(name, fmt::format("holds '{}' {}, the manifest says '{}' {}", tensors[i].first,
                                       tensors[i].second.type().to_string(), expected, type.to_string()));
  }
  return {};
}

}  // namespace trireme::io
