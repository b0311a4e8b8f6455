// Predictions as JSON, CSV and tables.
#include <algorithm>

#include "trireme/apply/predict.h"

namespace trireme::apply {
namespace {

// A field of a CSV file: quoted where it must be (RFC 4180, section 2).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string name_or_nothing(const LoadedModel& model, std::int32_t index) {
  return index < 0 ? "" : class_name(*model.data, index);
}

}  // namespace

Json to_json(const std::vector<Prediction>& predictions, const LoadedModel& model) {
  Json rows = Json::array();
  for (const Prediction& p : predictions) {
    Json row;
    row["sample"] = p.name;
    row["class"] = class_name(*model.data, p.best);
    row["probability"] = p.probability;
    if (p.second >= 0) {
      row["second"] = class_name(*model.data, p.second);
      row["second_probability"] = p.second_probability;
    }
    if (p.label >= 0) row["label"] = class_name(*model.data, p.label);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_csv(const std::vector<Prediction>& predictions, const LoadedModel& model) {
  std::string text = "sample,class,probability,second,second_probability,label\n";
  for (const Prediction& p : predictions)
    text += fmt::format("{},{},{:.6g},{},{:.6g},{}\n", csv_field(p.name),
                        csv_field(class_name(*model.data, p.best)), p.probability,
                        csv_field(name_or_nothing(model, p.second)), p.second_probability,
                        csv_field(name_or_nothing(model, p.label)));
  return text;
}

std::string to_text(const std::vector<Prediction>& predictions, const LoadedModel& model) {
  std::size_t sample = 6, width = 5;
  for (const Prediction& p : predictions) {
    sample = std::max(sample, p.name.size());
    for (const std::int32_t c : {p.best, p.second, p.label})
      width = std::max(width, name_or_nothing(model, c).size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<{}}  {:>9}  second best\n", "sample", sample, "class", width, "sure");
  for (const Prediction& p : predictions) {
    text += fmt::format("{:<{}}  {:<{}}  {:>7.2f} %", p.name, sample, class_name(*model.data, p.best), width,
                        100 * p.probability);
    if (p.second >= 0)
      text += fmt::format("  {:<{}}  {:>7.2f} %", class_name(*model.data, p.second), width,
                          100 * p.second_probability);
    if (p.label >= 0 && p.label != p.best)
      text += fmt::format("  wrong: it is {}", class_name(*model.data, p.label));
    text += '\n';
  }
  return text;
}

Json to_json(const Reconstructions& r) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < r.names.size(); ++i)
    rows.push_back({{"sample", r.names[i]}, {"mean_squared_error", r.errors[i]}});
  return rows;
}

std::string to_text(const Reconstructions& r) {
  std::size_t width = 6;
  for (const std::string& name : r.names) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}  mean squared error\n", "sample", width);
  for (std::size_t i = 0; i < r.names.size(); ++i)
    text += fmt::format("{:<{}}  {:>18.5f}\n", r.names[i], width, r.errors[i]);
  return text;
}

}  // namespace trireme::apply
