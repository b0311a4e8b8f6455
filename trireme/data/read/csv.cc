#include "trireme/data/read/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

struct Field {
  std::string text;
  std::size_t offset = 0;
};

// Cuts the text into records of fields.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view source, char separator)
      : text_(text), source_(source), separator_(separator) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  std::size_t line() const { return record_line_; }
  Status fail(std::size_t line, std::size_t offset, std::string_view what) const {
    return error(Code::kCorrupt, "[data] {}, line {}, offset {}: {}", source_, line, offset, what);
  }

  // False at the end of the text.
  Result<bool> next(std::vector<Field>& fields) {
    fields.clear();
    while (at_ < text_.size() && at_end_of_line()) skip_end_of_line();
    if (at_ == text_.size()) return false;
    record_line_ = line_;
    while (true) {
      TR_ASSIGN_OR_RETURN(Field field, take_field());
      fields.push_back(std::move(field));
      if (at_ == text_.size()) return true;
      if (text_[at_] == separator_) {
        ++at_;
        continue;
      }
      skip_end_of_line();
      return true;
    }
  }

 private:
  bool at_end_of_line() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  void skip_end_of_line() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++at_;
    ++line_;
  }

  Result<Field> take_field() {
    Field field{{}, at_};
    if (at_ < text_.size() && text_[at_] == '"') return take_quoted(std::move(field));
    while (at_ < text_.size() && text_[at_] != separator_ && !at_end_of_line()) {
      if (text_[at_] == '"') return fail(line_, at_, "a quote within a field; quote the whole field");
      field.text += text_[at_++];
    }
    return field;
  }

  Result<Field> take_quoted(Field field) {
    const std::size_t line = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        field.text += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field.text += text_[at_++];
      } else {
        ++at_;
        if (at_ < text_.size() && text_[at_] != separator_ && !at_end_of_line())
          return fail(line_, at_, "text after a closing quote");
        return field;
      }
    }
    return fail(line, field.offset, "a quote that never closes");
  }

  std::string_view text_, source_;
  char separator_;
  std::size_t at_ = 0, line_ = 1, record_line_ = 1;
};

constexpr std::size_t kNoLabel = static_cast<std::size_t>(-1);

// Which column is the label.
Result<std::size_t> find_label(const CsvOptions& options, const std::vector<Field>& first, bool header,
                               std::string_view source) {
  if (options.label == "none") return kNoLabel;
  if (options.label.empty()) return first.size() - 1;
  if (header)
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].text == options.label) return i;
  std::size_t number = 0;
  const char* end = options.label.data() + options.label.size();
  const auto parsed = std::from_chars(options.label.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number < first.size()) return number;
  std::string names;
  for (const Field& field : first) names += (names.empty() ? "" : ", ") + shown_text(field.text, 40);
  return error(Code::kInvalid, "[data] {}: no label column '{}'; expected 0 to {}{}", source, options.label,
               first.size() - 1, header ? " or one of " + names : "");
}

// Why a field is no number, where that is known.
std::string_view hint_of(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t comma = text.find(',');
  if (comma != std::string_view::npos && std::ranges::any_of(text, digit) &&
      std::ranges::all_of(text, [&](char c) { return digit(c) || c == ',' || c == '.' || c == '-'; }))
    return "; numbers have a decimal point: replace decimal commas, and remove commas between thousands";
  if (text.empty() || text == "?" || text == "NA" || text == "N/A" || text == "nan" || text == "NaN" ||
      text == "null" || text == "None")
    return "; a missing value must be filled in, or its row removed";
  return "";
}

Status take_row(CsvTable& table, const CsvReader& reader, const std::vector<Field>& fields,
                std::size_t label) {
  // First, since an empty last column means that every other one is taken for its neighbour.
  if (label != kNoLabel && fields[label].text.empty())
    return reader.fail(reader.line(), fields[label].offset,
                       label + 1 < fields.size() || fields.size() < 3
                           ? "the label is empty"
                           : "the label is empty: the line ends with a separator, which makes one more "
                             "column; remove it, or set data.label to the column of the label");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i == label) {
      table.labels.push_back(fields[i].text);
      continue;
    }
    const auto value = number_of(fields[i].text);
    if (!value || !std::isfinite(static_cast<float>(*value)))
      return reader.fail(reader.line(), fields[i].offset,
                         fmt::format("column {}: got '{}', expected a finite number{}", i,
                                     shown_text(fields[i].text, 40), hint_of(fields[i].text)));
    table.features.push_back(static_cast<float>(*value));
  }
  ++table.num_rows;
  return {};
}

bool is_number(const Field& field) { return number_of(field.text).has_value(); }

// Text that stands for a name, not for a value that is missing.
bool is_name(const Field& field) {
  return !is_number(field) && hint_of(field.text).empty() && !field.text.empty();
}

// Whether the first line is a header by itself and by the line below it, as far as that can be known.
bool looks_like_header(const CsvOptions& options, const std::vector<Field>& first,
                       const std::vector<Field>& second) {
  if (std::ranges::none_of(first, is_number)) return true;
  if (!options.label.empty() && !number_of(options.label) &&
      std::ranges::any_of(first, [&](const Field& f) { return f.text == options.label; }))
    return true;
  if (first.size() != second.size()) return false;
  const std::size_t last = options.label.empty() ? first.size() - 1 : first.size();
  for (std::size_t i = 0; i < last; ++i)
    if (is_name(first[i]) && is_number(second[i])) return true;
  return false;
}

// What the first row has beside its label, in words.
std::string first_row_of(const CsvTable& table) {
  std::string text;
  const std::size_t width = table.columns.size();
  for (std::size_t j = 0; j < std::min<std::size_t>(width, 3); ++j)
    text += fmt::format("{}{:g}", j == 0 ? "" : ", ", table.features[j]);
  return text + (width > 3 ? ", ..." : "");
}

// Each one more than the one before it.
bool counts_up(std::span<const float> values) {
  for (std::size_t j = 1; j < values.size(); ++j)
    if (values[j] != values[j - 1] + 1) return false;
  return true;
}

// A first row of whole numbers such as years, each beyond all values of its column below.
bool is_beyond_all(const CsvTable& table) {
  const std::size_t width = table.columns.size();
  for (std::size_t j = 0; j < width; ++j) {
    const float first = table.features[j];
    if (first < 0 || first != std::floor(first)) return false;
    float least = table.features[width + j], most = least;
    for (std::size_t i = 1; i < static_cast<std::size_t>(table.num_rows); ++i) {
      least = std::min(least, table.features[i * width + j]);
      most = std::max(most, table.features[i * width + j]);
    }
    if (first >= least && first <= most) return false;
  }
  return true;
}

// A header of numbers (2019,2020,...,target) reads like a sample of a class of its own. The rows below tell.
enum class FirstRow : std::uint8_t { kSample, kHeader, kUnsure };
FirstRow judge_first_row(const CsvTable& table) {
  constexpr std::int64_t kFewestRows = 4;
  if (table.labels.empty() || table.num_rows < kFewestRows) return FirstRow::kSample;
  const std::string& name = table.labels[0];
  if (std::find(table.labels.begin() + 1, table.labels.end(), name) != table.labels.end())
    return FirstRow::kSample;
  const auto first = std::span(table.features).first(table.columns.size());
  const auto is_value = [](const std::string& label) { return number_of(label).has_value(); };
  const bool others_are_numbers = std::all_of(table.labels.begin() + 1, table.labels.end(), is_value);
  if (is_value(name)) {
    const bool goes_on =
        first.size() >= 2 && counts_up(first) && *number_of(name) == static_cast<double>(first.back()) + 1;
    return others_are_numbers && goes_on && is_beyond_all(table) ? FirstRow::kHeader : FirstRow::kSample;
  }
  if (others_are_numbers || is_beyond_all(table) || (first.size() >= 3 && counts_up(first)))
    return FirstRow::kHeader;
  std::map<std::string_view, int> counts;
  for (const std::string& label : table.labels) ++counts[label];
  const auto alone = std::ranges::count_if(counts, [](const auto& c) { return c.second == 1; });
  return alone == 1 ? FirstRow::kUnsure : FirstRow::kSample;
}

void settle_first_row(CsvTable& table) {
  const FirstRow what = judge_first_row(table);
  if (what == FirstRow::kSample) return;
  const std::string name = shown_text(table.labels[0], 40), row = first_row_of(table);
  if (what == FirstRow::kUnsure) {
    table.notes.push_back(fmt::format(
        "only the first line has the label '{}'; if that line is a header, set data.header=yes", name));
    return;
  }
  table.notes.push_back(fmt::format(
      "the first line ({}, {}) is read as a header; if it is a sample, set data.header=no", row, name));
  const std::size_t width = table.columns.size();
  for (std::size_t j = 0; j < width; ++j) table.columns[j] = fmt::format("{:.9g}", table.features[j]);
  table.features.erase(table.features.begin(), table.features.begin() + static_cast<std::ptrdiff_t>(width));
  table.labels.erase(table.labels.begin());
  --table.num_rows;
}

Status check_encoding(std::string_view text, std::string_view source) {
  const std::size_t nul = text.find('\0');
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
      (nul != std::string_view::npos && nul < 2 && text.size() > 3))
    return error(Code::kCorrupt,
                 "[data] {}, offset 0: the file is UTF-16 (what Excel calls \"Unicode text\"); save it as "
                 "\"CSV UTF-8\", or run: iconv -f UTF-16 -t UTF-8",
                 source);
  if (nul != std::string_view::npos)
    return error(Code::kCorrupt, "[data] {}, offset {}: a zero byte; is this a text file?", source, nul);
  return {};
}

}  // namespace

std::optional<double> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<char> separator_of(std::string_view text) {
  if (text == "\\t" || text == "tab") return '\t';
  if (text.size() != 1 || std::string_view("\"\r\n").find(text[0]) != std::string_view::npos)
    return std::nullopt;
  return text[0];
}

Result<CsvTable> parse_csv(std::string_view text, std::string_view source, const CsvOptions& options) {
  if (options.header != "auto" && options.header != "yes" && options.header != "no")
    return error(Code::kInvalid, "[data] header: got '{}', expected auto, yes or no", options.header);
  TR_RETURN_IF_ERROR(check_encoding(text, source));
  CsvReader reader(text, source, options.separator);
  std::vector<Field> fields, below;
  TR_ASSIGN_OR_RETURN(bool more, reader.next(fields));
  if (!more) return reader.fail(1, text.size(), "the file is empty; expected rows of numbers");
  bool header = options.header == "yes";
  if (options.header == "auto") {
    CsvReader ahead = reader;  // what is wrong with the second line is told when it is read
    const Result<bool> second = ahead.next(below);
    if (!second.ok() || !*second) below.clear();
    header = looks_like_header(options, fields, below);
  }
  TR_ASSIGN_OR_RETURN(const std::size_t label, find_label(options, fields, header, source));
  CsvTable table;
  const std::size_t width = fields.size();
  if (width - (label == kNoLabel ? 0 : 1) == 0)
    return reader.fail(reader.line(), 0, "no columns beside the label; is the separator right?");
  for (std::size_t i = 0; i < width; ++i)
    if (i != label) table.columns.push_back(header ? fields[i].text : std::to_string(i));
  if (header) {
    TR_ASSIGN_OR_RETURN(more, reader.next(fields));
  }
  while (more) {
    if (fields.size() != width)
      return reader.fail(reader.line(), fields[0].offset,
                         fmt::format("got {} fields, expected {}{}", fields.size(), width,
                                     fields.size() == width + 1 && fields.back().text.empty()
                                         ? ": the line ends with a separator; remove it"
                                         : ""));
    TR_RETURN_IF_ERROR(take_row(table, reader, fields, label));
    TR_ASSIGN_OR_RETURN(more, reader.next(fields));
  }
  if (table.num_rows == 0) return reader.fail(reader.line(), text.size(), "no rows below the header");
  if (options.header == "auto" && !header) settle_first_row(table);
  return table;
}

std::vector<std::string> class_names_of(const std::vector<std::string>& labels) {
  const std::set<std::string> distinct(labels.begin(), labels.end());
  std::vector<std::string> names(distinct.begin(), distinct.end());
  if (std::ranges::all_of(names, [](const std::string& n) { return number_of(n).has_value(); }))
    std::ranges::stable_sort(names, {}, [](const std::string& n) { return *number_of(n); });
  return names;
}

}  // namespace trireme::data
