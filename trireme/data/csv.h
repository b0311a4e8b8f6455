// Comma-separated tables (RFC 4180): numbers, and one column that is the label.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::data {

struct CsvOptions {
  std::string label = {};       // column by name or by number from 0; empty: the last one; "none": no labels
  std::string header = "auto";  // "yes", "no", or "auto": yes when no field of the first line is a number
  char separator = ',';
};

struct CsvTable {
  std::vector<std::string> columns;  // names of the features, or their numbers
  std::vector<float> features;       // rows x columns
  std::vector<std::string> labels;   // one per row, or none
  std::int64_t num_rows = 0;
};

// kCorrupt names `source`, line and offset: unequal numbers of fields, fields that are no finite number,
// stray quotes, no rows. kInvalid: a label column that is not there. Empty lines are skipped.
Result<CsvTable> parse_csv(std::string_view text, std::string_view source, const CsvOptions& options);

// Classes of label texts: in order of value when all are numbers, of their bytes otherwise.
std::vector<std::string> class_names_of(const std::vector<std::string>& labels);

}  // namespace trireme::data
