// Comma-separated tables (RFC 4180): numbers, and one column that is the label.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::data {

struct CsvOptions {
  std::string label = {};  // column by name or by number from 0; empty: the last one; "none": no labels
  // "yes", "no", or "auto": yes when the first line cannot be a sample, as its fields and the rows below
  // tell.
  std::string header = "auto";
  char separator = ',';
};

struct CsvTable {
  std::vector<std::string> columns;  // names of the features, or their numbers
  std::vector<float> features;       // rows x columns
  std::vector<std::string> labels;   // one per row, or none
  std::int64_t num_rows = 0;
  std::vector<std::string> notes;  // what the user should know about how it was read
};

// kCorrupt names `source`, line and offset: unequal numbers of fields, fields that are no finite number,
// stray quotes, no rows, UTF-16. kInvalid: a label column that is not there. Empty lines are skipped.
Result<CsvTable> parse_csv(std::string_view text, std::string_view source, const CsvOptions& options);

// A finite number, with spaces around it allowed.
std::optional<double> number_of(std::string_view text);

// The character that data.separator names: itself, or a tab written as "\t" or "tab". Nothing: it names none.
std::optional<char> separator_of(std::string_view text);

// Classes of label texts: in order of value when all are numbers, of their bytes otherwise.
std::vector<std::string> class_names_of(const std::vector<std::string>& labels);

}  // namespace trireme::data
