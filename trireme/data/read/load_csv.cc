// A table of numbers: one file, or a folder with train.csv and perhaps test.csv.
#include <algorithm>
#include <unordered_map>

#include "trireme/data/notes.h"
#include "trireme/data/options.h"
#include "trireme/data/read/csv.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

using runtime::Task;

Task<Result<CsvTable>> read_table(runtime::Runtime& rt, std::string path, const DataSpec& spec) {
  const std::string written = spec.options.text(kSeparator);
  const std::optional<char> separator = separator_of(written);
  if (!separator)
    co_return error(Code::kInvalid, "[data] separator: got '{}', expected one character", written);
  Result<Bytes> file = co_await read_unpacked(rt, path);
  if (!file.ok()) co_return file.status();
  CsvTable table;
  Function<Status()> work = [&]() -> Status {
    CsvOptions options;
    options.label = spec.options.text(kLabel);
    options.header = spec.options.text(kHeader);
    options.separator = *separator;
    TR_ASSIGN_OR_RETURN(table, parse_csv(as_text(*file), path, options));
    return {};
  };
  TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, 4 * file->size(), std::move(work)));
  co_return table;
}

// Classes are those of the training rows: a label that only the test rows have is a mistake in the file.
Status take_labels(Dataset& set, const CsvTable& table, std::string_view source) {
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : set.class_names)
    numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  for (std::size_t i = 0; i < table.labels.size(); ++i) {
    const auto at = numbers.find(table.labels[i]);
    if (at == numbers.end())
      return error(Code::kCorrupt, "[data] {}: row {} has label '{}', which no training row has", source, i,
                   table.labels[i]);
    set.labels.push_back(at->second);
  }
  return {};
}

// What could be meant: the tables of a folder.
std::string tables_in(const std::vector<std::string>& names) {
  std::string text;
  int count = 0;
  for (const std::string& name : names)
    if (name.ends_with(".csv") && ++count <= 5) text += (text.empty() ? "; it has " : ", ") + name;
  return count > 5 ? text + ", ..." : text;
}

Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  auto set = std::make_shared<Dataset>();
  set->name = "csv";
  set->source = spec.path;
  set->dtype = DType::kF32;
  auto listed = co_await rt.files().list(spec.path);
  const bool folder = listed.ok();
  if (folder && std::ranges::find(*listed, "train.csv") == listed->end())
    co_return error(
        Code::kInvalid,
        "[data] {}: a folder without train.csv; set data.path to a .csv file, or to a folder with "
        "train.csv and perhaps test.csv{}",
        spec.path, tables_in(*listed));
  const std::string train_path = folder ? spec.path + "/train.csv" : spec.path;
  Result<CsvTable> train = co_await read_table(rt, train_path, spec);
  if (!train.ok()) co_return train.status();
  set->sample_shape = {static_cast<std::int64_t>(train->columns.size())};
  set->num_train = train->num_rows;
  set->notes = train->notes;
  note_columns(*train, set->notes);
  set->features = std::move(train->features);
  set->label_kind = train->labels.empty() ? Labels::kNone : Labels::kClass;
  set->class_names = class_names_of(train->labels);
  if (spec.labels) TR_CO_RETURN_IF_ERROR(check_targets(set->class_names, train->num_rows, train_path));
  set->num_classes = std::max(1, static_cast<int>(set->class_names.size()));
  TR_CO_RETURN_IF_ERROR(take_labels(*set, *train, train_path));
  if (folder && std::ranges::find(*listed, "test.csv") != listed->end()) {
    const std::string test_path = spec.path + "/test.csv";
    Result<CsvTable> test = co_await read_table(rt, test_path, spec);
    if (!test.ok()) co_return test.status();
    if (test->columns != train->columns)
      co_return error(Code::kCorrupt, "[data] {}: other columns than in {}", test_path, train_path);
    TR_CO_RETURN_IF_ERROR(take_labels(*set, *test, test_path));
    set->features.insert(set->features.end(), test->features.begin(), test->features.end());
    set->num_test = test->num_rows;
  }
  co_return set;
}

std::optional<OptionFault> check(const OptionValues& options) {
  if (separator_of(options.text(kSeparator))) return std::nullopt;
  return OptionFault{kSeparator.name, "one character, or tab"};
}

constexpr OptionSpec kOptions[] = {kLabel, kHeader, kSeparator};

}  // namespace

extern const DataKind kCsv{.name = "csv",
                           .doc = "A table of numbers, or a folder with train.csv and test.csv.",
                           .needs_path = true,
                           .statistics = Statistics::kAll,
                           .form = SampleForm::kRow,
                           .options = kOptions,
                           .check = check,
                           .load = load};

}  // namespace trireme::data
