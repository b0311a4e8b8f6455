#include "trireme/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

namespace trireme::data {
namespace {

struct Field {
  std::string text;
  std::size_t offset = 0;
};

// A finite number, spaces around it allowed.
std::optional<double> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

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
  for (const Field& field : first) names += (names.empty() ? "" : ", ") + field.text;
  return error(Code::kInvalid, "[data] {}: no label column '{}'; expected 0 to {}{}", source, options.label,
               first.size() - 1, header ? " or one of " + names : "");
}

Status take_row(CsvTable& table, const CsvReader& reader, const std::vector<Field>& fields,
                std::size_t label) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i == label) {
      if (fields[i].text.empty()) return reader.fail(reader.line(), fields[i].offset, "the label is empty");
      table.labels.push_back(fields[i].text);
      continue;
    }
    const auto value = number_of(fields[i].text);
    if (!value || !std::isfinite(static_cast<float>(*value)))
      return reader.fail(
          reader.line(), fields[i].offset,
          fmt::format("column {}: got '{}', expected a finite number", i, fields[i].text.substr(0, 40)));
    table.features.push_back(static_cast<float>(*value));
  }
  ++table.num_rows;
  return {};
}

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, std::string_view source, const CsvOptions& options) {
  if (options.header != "auto" && options.header != "yes" && options.header != "no")
    return error(Code::kInvalid, "[data] header: got '{}', expected auto, yes or no", options.header);
  CsvReader reader(text, source, options.separator);
  std::vector<Field> fields;
  TR_ASSIGN_OR_RETURN(bool more, reader.next(fields));
  if (!more) return reader.fail(1, text.size(), "the file is empty; expected rows of numbers");
  const bool header = options.header == "yes" ||
                      (options.header == "auto" && std::ranges::none_of(fields, [](const Field& f) {
                         return number_of(f.text).has_value();
                       }));
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
                         fmt::format("got {} fields, expected {}", fields.size(), width));
    TR_RETURN_IF_ERROR(take_row(table, reader, fields, label));
    TR_ASSIGN_OR_RETURN(more, reader.next(fields));
  }
  if (table.num_rows == 0) return reader.fail(reader.line(), text.size(), "no rows below the header");
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
