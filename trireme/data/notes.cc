#include "trireme/data/notes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

constexpr std::int64_t kFewRows = 10;         // fewer tell nothing about a column
constexpr std::int64_t kFewSamples = 20;      // to train on
constexpr std::size_t kShownNames = 4;        // of columns, in a note
constexpr double kFarAway = 1000;             // deviations of the other values
constexpr double kLargeDeviation = 20;        // of values that nothing normalises
constexpr std::size_t kManyClasses = 100;     // more numbers than that may be measurements
constexpr std::size_t kFractionClasses = 20;  // the same of numbers with fractions
constexpr std::int64_t kRowsPerClass = 50;    // as many rows for each number: classes after all

std::string name_of(const CsvTable& table, std::size_t column) {
  const std::string& name = table.columns[column];
  return name.empty() ? fmt::format("{}", column) : fmt::format("'{}'", shown_text(name, 40));
}

std::string name_list(const CsvTable& table, const std::vector<std::size_t>& columns) {
  std::string text;
  for (std::size_t i = 0; i < std::min(columns.size(), kShownNames); ++i)
    text += (i == 0 ? "" : ", ") + name_of(table, columns[i]);
  if (columns.size() > kShownNames) text += fmt::format(" and {} more", columns.size() - kShownNames);
  return text;
}

struct Extremes {
  std::size_t least = 0, most = 0;  // rows
};

class Columns {
 public:
  explicit Columns(const CsvTable& table)
      : table_(table), width_(table.columns.size()), rows_(static_cast<std::size_t>(table.num_rows)) {
    extremes_.resize(width_);
    for (std::size_t i = 1; i < rows_; ++i)
      for (std::size_t j = 0; j < width_; ++j) {
        Extremes& e = extremes_[j];
        if (at(i, j) < at(e.least, j)) e.least = i;
        if (at(i, j) > at(e.most, j)) e.most = i;
      }
  }

  bool is_constant(std::size_t j) const { return at(extremes_[j].least, j) == at(extremes_[j].most, j); }

  // 0, 1, 2, ... or 1, 2, 3, ...; or different whole numbers under a name that programs give to row numbers.
  bool is_index(std::size_t j) const {
    const double first = at(0, j);
    bool counts = first == 0 || first == 1;
    for (std::size_t i = 1; i < rows_ && counts; ++i) counts = at(i, j) == first + static_cast<double>(i);
    if (counts) return true;
    const std::string& name = table_.columns[j];
    if (!name.empty() && !name.starts_with("Unnamed: 0") && name != "index" && name != "Id" && name != "id" &&
        name != "ID")
      return false;
    std::set<double> seen;
    for (std::size_t i = 0; i < rows_; ++i)
      if (at(i, j) != std::floor(at(i, j)) || !seen.insert(at(i, j)).second) return false;
    return true;
  }

  // The row whose value lies far beyond those of all the others; rows_: none does.
  std::size_t outlier(std::size_t j) const {
    const Extremes& e = extremes_[j];
    double mean = 0, squares = 0, count = 0;
    for (std::size_t i = 0; i < rows_; ++i) {
      if (i == e.least || i == e.most) continue;
      const double d = at(i, j) - mean;
      mean += d / ++count;
      squares += d * (at(i, j) - mean);
    }
    const double limit = kFarAway * std::sqrt(squares / std::max(1.0, count));
    if (!(limit > 0)) return rows_;  // a value that is rare: the others are equal
    if (at(e.most, j) - mean > limit) return e.most;
    return mean - at(e.least, j) > limit ? e.least : rows_;
  }

  double at(std::size_t i, std::size_t j) const {
    return static_cast<double>(table_.features[i * width_ + j]);
  }
  std::size_t num_rows() const { return rows_; }

 private:
  const CsvTable& table_;
  std::size_t width_, rows_;
  std::vector<Extremes> extremes_;
};

Status refuse_targets(std::string_view source, std::size_t distinct, std::int64_t rows) {
  return error(
      Code::kInvalid,
      "[data] {}: the label is a number with {} different values in {} rows, which looks like a "
      "target for regression; only classes can be learned so far. Set data.label to the column of a "
      "class, put the values into a few ranges, or, if they are classes, write them as words (c1, c2, ...)",
      source, distinct, rows);
}

// Class numbers follow each other and have some rows each, or they have many; measurements do neither.
bool are_measurements(std::size_t distinct, double least, double most, bool fractions, std::int64_t rows) {
  if (distinct <= (fractions ? kFractionClasses : kManyClasses)) return false;
  if (rows >= kRowsPerClass * static_cast<std::int64_t>(distinct)) return false;
  return fractions || rows < 2 * static_cast<std::int64_t>(distinct) ||
         most - least + 1 > 1.02 * static_cast<double>(distinct);
}

}  // namespace

void note_columns(const CsvTable& table, Notes& notes) {
  if (table.num_rows < kFewRows) return;
  const Columns columns(table);
  std::vector<std::size_t> constant, index;
  for (std::size_t j = 0; j < table.columns.size(); ++j) {
    if (columns.is_constant(j)) {
      constant.push_back(j);
    } else if (columns.is_index(j)) {
      index.push_back(j);
    } else if (const std::size_t row = columns.outlier(j); row < columns.num_rows()) {
      notes.push_back(
          fmt::format("column {}: the value {:g} in row {} is more than {:g} deviations away from all "
                      "others; it flattens the column, which is standardised: is it right?",
                      name_of(table, j), columns.at(row, j), row, kFarAway));
    }
  }
  if (!constant.empty())
    notes.push_back(fmt::format("nothing can be learned from columns with the same value in every row: {}",
                                name_list(table, constant)));
  if (!index.empty())
    notes.push_back(fmt::format(
        "column {} numbers the rows: it looks like an index, not a feature; leave it out (pandas: "
        "to_csv(..., index=False))",
        name_list(table, index)));
}

void note_samples(const Dataset& set, const TensorType& array, std::string_view source, Notes& notes) {
  const Shape& shape = set.sample_shape;
  const auto few = [](std::int64_t n) { return n == 1 || n == 3 || n == 4; };
  if (array.shape.rank() == 4 && few(shape[2]) && !few(shape[0]))
    notes.push_back(fmt::format(
        "{}: samples of {} look like images with the channels last; they come first here, as [{}, {}, {}] "
        "(NumPy: x.transpose(0, 3, 1, 2))",
        source, shape.to_string(), shape[2], shape[0], shape[1]));
  if (set.dtype != DType::kF32 || set.features.empty()) return;
  double mean = 0, squares = 0, count = 0;
  float least = set.features[0], most = least;
  for (const float value : set.features) {
    const double d = static_cast<double>(value) - mean;
    mean += d / ++count;
    squares += d * (static_cast<double>(value) - mean);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (std::sqrt(squares / count) < kLargeDeviation) return;
  const bool pixels = least >= 0 && most <= 255 && most >= 128;
  notes.push_back(fmt::format(
      "{}: {} values from {:g} to {:g} are used as they are, and training may diverge; {}", source,
      dtype_name(array.dtype), static_cast<double>(least), static_cast<double>(most),
      pixels ? "save images as uint8, which are normalized (NumPy: x.astype('uint8')), or divide them by 255"
             : "scale them to about -1 to 1 before saving"));
}

void note_parts(Dataset& set, const DataSpec& spec) {
  if (spec.limit_train == 0 && set.dtype != DType::kI32 && set.num_train < kFewSamples)
    set.notes.push_back(fmt::format("only {} training and {} test samples: results from so few mean little",
                                    set.num_train, set.num_test));
  if (set.label_kind != Labels::kClass) return;
  const std::int32_t first = set.label_of(0);
  for (std::int64_t id = 1; id < set.num_train; ++id)
    if (set.label_of(id) != first) return;
  const std::string name =
      set.class_names.empty()
          ? fmt::format("{}", first)
          : fmt::format("'{}'", shown_text(set.class_names[static_cast<std::size_t>(first)], 40));
  set.notes.push_back(fmt::format(
      "all {} training samples are of one class, {}: a classifier needs at least two", set.num_train, name));
}

Status check_targets(std::span<const std::string> names, std::int64_t num_rows, std::string_view source) {
  double least = 0, most = 0;
  bool fractions = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::optional<double> value = number_of(names[i]);
    if (!value) return {};
    fractions = fractions || *value != std::floor(*value);
    least = i == 0 ? *value : std::min(least, *value);
    most = i == 0 ? *value : std::max(most, *value);
  }
  if (!are_measurements(names.size(), least, most, fractions, num_rows)) return {};
  return refuse_targets(source, names.size(), num_rows);
}

Status check_labels_used(std::span<const std::int32_t> labels, std::string_view source, Notes& notes) {
  if (labels.empty()) return {};
  const auto [least, most] = std::ranges::minmax(labels);
  std::vector<bool> used(static_cast<std::size_t>(most) + 1, false);
  for (const std::int32_t label : labels) used[static_cast<std::size_t>(label)] = true;
  const auto distinct = static_cast<std::size_t>(std::ranges::count(used, true));
  const auto rows = static_cast<std::int64_t>(labels.size());
  const std::size_t skipped = used.size() - distinct;
  constexpr std::size_t kTooMany = 10000, kTooSparse = 100, kFewSkipped = 10;
  if (used.size() > kTooMany && used.size() > kTooSparse * distinct)
    return error(
        Code::kInvalid,
        "[data] {}: labels reach {}, but only {} different ones occur; a model would have {} classes. "
        "Number them 0 to {} (NumPy: y = np.unique(y, return_inverse=True)[1])",
        source, most, distinct, used.size(), distinct - 1);
  if (are_measurements(distinct, least, most, false, rows)) return refuse_targets(source, distinct, rows);
  if (skipped > kFewSkipped && skipped > distinct)
    notes.push_back(fmt::format(
        "{}: {} of the {} classes 0 to {} have no sample; number the classes without gaps (NumPy: "
        "np.unique(y, return_inverse=True)[1])",
        source, skipped, used.size(), most));
  return {};
}

}  // namespace trireme::data
