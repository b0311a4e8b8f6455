// One input of the CSV reader's fuzz target: the first byte says which options, the rest is the table. What
// is read, written out again and read again is the same.
#pragma once

#include "trireme/base/bytes.h"
#include "trireme/data/read/csv.h"

namespace trireme::data {

inline std::string csv_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

inline std::string written(const CsvTable& table) {
  std::string out;
  const std::size_t width = table.columns.size();
  for (const std::string& name : table.columns) out += csv_quoted(name) + ",";
  out += "label\n";
  for (std::size_t i = 0; i < static_cast<std::size_t>(table.num_rows); ++i) {
    for (std::size_t j = 0; j < width; ++j) out += fmt::format("{:.9g},", table.features[i * width + j]);
    out += (table.labels.empty() ? "none" : csv_quoted(table.labels[i])) + "\n";
  }
  return out;
}

inline bool run_csv_target(ByteView bytes) {
  if (bytes.empty()) return false;
  const auto mode = static_cast<unsigned>(bytes[0]);
  CsvOptions options;
  options.header = mode % 3 == 0 ? "auto" : mode % 3 == 1 ? "yes" : "no";
  options.separator = (mode & 0x10U) != 0 ? ';' : ',';
  options.label = (mode & 0x20U) != 0 ? "none" : (mode & 0x40U) != 0 ? "0" : "";
  const Result<CsvTable> table = parse_csv(as_text(bytes.subspan(1)), "x.csv", options);
  if (!table.ok()) {
    TR_CHECK(!table.status().message().empty());
    return false;
  }
  const auto rows = static_cast<std::size_t>(table->num_rows);
  TR_CHECK(rows > 0 && table->features.size() == rows * table->columns.size());
  TR_CHECK(table->labels.empty() || table->labels.size() == rows);
  CsvOptions again;
  again.header = "yes";
  const Result<CsvTable> second = parse_csv(written(*table), "again.csv", again);
  TR_CHECK(second.ok(), "{}", second.status().to_string());
  TR_CHECK(second->features == table->features && second->columns == table->columns);
  TR_CHECK(table->labels.empty() || second->labels == table->labels);
  TR_CHECK(class_names_of(table->labels).size() <= rows);
  return true;
}

}  // namespace trireme::data
