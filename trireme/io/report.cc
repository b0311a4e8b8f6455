#include "trireme/io/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::io {
namespace {

// Text by columns: all but the last padded to their widest cell. The first row is the heading.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? fmt::format(" {:<{}} ", row[i], widths[i]) : " " + row[i];
    text += line + "\n";
  }
  return text;
}

// JSON has no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(value > 0 ? "inf" : "nan"); }

std::string sizes(std::size_t num_tensors, std::int64_t num_elems, std::uint64_t bytes) {
  return fmt::format("{} tensors, {} values, {}", num_tensors, num_elems, format_bytes(bytes));
}

Json dims_of(const TensorType& type) {
  const auto dims = type.shape.dims();
  return std::vector<std::int64_t>(dims.begin(), dims.end());
}

// A tensor, and in how many pieces it is.
struct TensorRow {
  std::string name;
  TensorType type;
  int pieces = 0;
};
std::vector<TensorRow> rows_of(const Manifest& m) {
  std::vector<TensorRow> rows;
  std::map<std::string_view, std::size_t> known;
  for (const ManifestTensor& t : m.tensors) {
    const auto [at, is_new] = known.emplace(t.name, rows.size());
    if (is_new) rows.push_back({t.name, t.type});
    ++rows[at->second].pieces;
  }
  return rows;
}

Json to_json(const TensorDiff& d) {
  Json row = {{"name", d.name}, {"relation", relation_name(d.relation)}};
  if (d.relation != TensorRelation::kOnlySecond) row["first"] = d.first.to_string();
  if (d.relation != TensorRelation::kOnlyFirst) row["second"] = d.second.to_string();
  if (d.relation == TensorRelation::kDifferent)
    row.update({{"num_different", d.num_different},
                {"max_abs", number(d.max_abs)},
                {"max_relative", number(d.max_relative)}});
  return row;
}

std::vector<std::string> diff_row(const TensorDiff& d) {
  switch (d.relation) {
    case TensorRelation::kDifferent:
      return {d.name, d.first.to_string(),
              fmt::format("{} of {} values differ, by at most {:.3g} (relative {:.3g})", d.num_different,
                          d.first.shape.num_elems(), d.max_abs, d.max_relative)};
    case TensorRelation::kOtherType:
      return {d.name, d.first.to_string(), fmt::format("is {} in the second", d.second.to_string())};
    case TensorRelation::kOnlySecond:
      return {d.name, d.second.to_string(), relation_name(d.relation)};
    case TensorRelation::kOnlyFirst:
    case TensorRelation::kEqual:
      break;
  }
  return {d.name, d.first.to_string(), relation_name(d.relation)};
}

std::string place(const std::string& path, std::int64_t step) {
  return step < 0 ? path : fmt::format("{} (step {})", path, step);
}

}  // namespace

Json to_json(const CheckpointInfo& info) {
  const Manifest& m = info.manifest;
  Json files = Json::array(), tensors = Json::array(), metadata = Json::object();
  for (const ManifestFile& f : m.files)
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  for (const ManifestTensor& t : m.tensors) {
    Json row = {{"name", t.name},
                {"dtype", dtype_name(t.type.dtype)},
                {"shape", dims_of(t.type)},
                {"bytes", stored_type(t.piece()).num_bytes()},
                {"file", m.files[t.file].name}};
    if (m.version == kManifestOfPieces) row["piece"] = t.piece().to_text();
    tensors.push_back(std::move(row));
  }
  for (const auto& [key, value] : info.metadata) metadata[key] = value;
  return {{"path", info.path},
          {"version", m.version},
          {"step", info.is_generation ? Json(m.step) : Json()},
          {"generations", info.generations},
          {"num_elems", info.num_elems()},
          {"tensor_bytes", info.tensor_bytes()},
          {"files", files},
          {"tensors", tensors},
          {"state", m.state},
          {"metadata", metadata}};
}

Json to_json(const std::vector<VerifiedCheckpoint>& checkpoints) {
  Json rows = Json::array();
  for (const VerifiedCheckpoint& c : checkpoints) {
    Json non_finite = Json::array();
    for (const auto& n : c.non_finite)
      non_finite.push_back(
          {{"tensor", n.tensor}, {"nans", n.count.nans}, {"infinities", n.count.infinities}});
    rows.push_back({{"path", c.path},
                    {"step", c.step < 0 ? Json() : Json(c.step)},
                    {"ok", c.ok()},
                    {"finished", c.finished},
                    {"files", c.num_files},
                    {"tensors", c.num_tensors},
                    {"bytes", c.bytes},
                    {"damages", c.damages},
                    {"non_finite", non_finite},
                    {"notes", c.notes}});
  }
  return {{"ok", all_ok(checkpoints)}, {"checkpoints", rows}};
}

Json to_json(const CheckpointDiff& diff) {
  Json rows = Json::array();
  for (const TensorDiff& d : diff.tensors) rows.push_back(to_json(d));
  return {{"equal", all_equal(diff.tensors)},
          {"first", {{"path", diff.first_path}, {"step", diff.first_step}}},
          {"second", {{"path", diff.second_path}, {"step", diff.second_step}}},
          {"tensors", rows}};
}

std::string to_text(const CheckpointInfo& info) {
  const Manifest& m = info.manifest;
  std::string text = info.path + "\n";
  if (info.is_generation) text += fmt::format("  step     {}\n", m.step);
  if (info.generations.size() > 1) text += fmt::format("  kept     {}\n", fmt::join(info.generations, ", "));
  const std::vector<TensorRow> tensors = rows_of(m);
  text += fmt::format("  tensors  {}\n", sizes(tensors.size(), info.num_elems(), info.tensor_bytes()));
  if (tensors.size() < m.tensors.size()) text += fmt::format("  pieces   {}\n", m.tensors.size());
  for (const ManifestFile& f : m.files)
    text += fmt::format("  file     {}  {}  sha256 {}...\n", f.name, format_bytes(f.bytes),
                        f.sha256.substr(0, 12));
  for (const auto& [key, value] : info.metadata) text += fmt::format("  noted    {} = {}\n", key, value);
  if (m.state.is_object())
    for (const auto& [key, value] : m.state.items())
      text += fmt::format("  state    {} = {}\n", key, value.dump());
  const bool pieces = m.version == kManifestOfPieces;
  std::vector<std::vector<std::string>> rows = {{"tensor", "type", "size"}};
  if (pieces) rows[0].emplace_back("pieces");
  for (const TensorRow& t : tensors) {
    rows.push_back({t.name, t.type.to_string(), format_bytes(t.type.num_bytes())});
    if (pieces) rows.back().push_back(fmt::format("{}", t.pieces));
  }
  return text + (rows.size() > 1 ? "\n" + table(rows) : "");
}

std::string to_text(const std::vector<VerifiedCheckpoint>& checkpoints) {
  std::string text;
  for (const VerifiedCheckpoint& c : checkpoints) {
    const char* verdict = c.ok()              ? "ok"
                          : !c.finished       ? "not finished"
                          : c.damages.empty() ? "not finite"
                                              : "DAMAGED";
    text += fmt::format("{}: {} ({} files, {} tensors, {} read)\n", place(c.path, c.step), verdict,
                        c.num_files, c.num_tensors, format_bytes(c.bytes));
    for (const std::string& damage : c.damages) text += "  " + damage + "\n";
    for (const auto& n : c.non_finite)
      text += fmt::format("  tensor '{}' holds {} NaN and {} infinite values\n", n.tensor, n.count.nans,
                          n.count.infinities);
    for (const std::string& note : c.notes) text += "  note: " + note + "\n";
  }
  return text;
}

std::string to_text(const CheckpointDiff& diff) {
  std::string text = fmt::format("first   {}\nsecond  {}\n", place(diff.first_path, diff.first_step),
                                 place(diff.second_path, diff.second_step));
  std::vector<std::vector<std::string>> rows;
  for (const TensorDiff& d : diff.tensors)
    if (d.relation != TensorRelation::kEqual) rows.push_back(diff_row(d));
  const std::size_t equal = diff.tensors.size() - rows.size();
  text += rows.empty() ? fmt::format("equal: all {} tensors, bit for bit\n", equal)
                       : fmt::format("{} of {} tensors are equal, bit for bit\n", equal, diff.tensors.size());
  return text + (rows.empty() ? "" : table(rows));
}

}  // namespace trireme::io
