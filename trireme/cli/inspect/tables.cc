// The tables of models, optimisers, schedules, layers, styles and kinds of data, as JSON rows and as text.
#include "trireme/cli/inspect/parts.h"
#include "trireme/data/source.h"
#include "trireme/model/describe.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/schedule.h"
#include "trireme/op/detail/attr_json.h"
#include "trireme/parallel/shard/style.h"

namespace trireme::cli {
namespace {

constexpr std::string_view task_name(model::ModelTask task) {
  switch (task) {
    case model::ModelTask::kClassify:
      return "classify";
    case model::ModelTask::kLanguage:
      return "language";
    case model::ModelTask::kReconstruct:
      return "reconstruct";
  }
  return "";
}

Json dims(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t d : shape.dims()) list.push_back(d);
  return list;
}

// Elements; null where the model cannot be built, which a test forbids.
Json count_parameters(const model::ZooRow& row) {
  const auto built = model::build_model(row.name, row.input(), 1);
  if (!built.ok()) return {};
  std::int64_t count = 0;
  for (const model::Parameter& p : built->parameters) count += p.type.shape.num_elems();
  return count;
}

Json attr_row(std::string_view name, std::string_view kind, bool required, Json value, std::string doc) {
  return {{"name", name},
          {"kind", kind},
          {"required", required},
          {"default", std::move(value)},
          {"doc", std::move(doc)}};
}

// Options of a row but the one that makes the row what it is.
Json option_rows(std::span<const OptionSpec> options, const char* fixed = nullptr) {
  static constexpr const char* kKinds[] = {"an integer", "a number", "true or false", "a string"};
  Json rows = Json::array();
  for (const OptionSpec& o : options) {
    if (fixed != nullptr && std::string_view(o.name) == fixed) continue;
    Json value = std::visit([](const auto& v) { return Json(v); }, o.initial());
    rows.push_back(attr_row(o.name, kKinds[o.default_value.index()], false, std::move(value), o.doc));
  }
  return rows;
}

Json layer_attr(const model::LayerAttr& a) {
  using Type = model::LayerAttr::Type;
  static constexpr const char* kKinds[] = {"an integer", "a number", "true or false", "a string",
                                           "a list of layers"};
  Json value;
  if (!a.required && a.type == Type::kText) value = a.text;
  if (!a.required && a.type == Type::kBool) value = a.number != 0;
  if (!a.required && a.type == Type::kInt) value = static_cast<std::int64_t>(a.number);
  if (!a.required && a.type == Type::kNumber) value = a.number;
  const bool ranged = a.type == Type::kInt || a.type == Type::kNumber;
  return attr_row(a.name, kKinds[static_cast<std::size_t>(a.type)], a.required, value,
                  ranged ? fmt::format("{} to {:.0f}", a.least, a.most) : "");
}

std::string attr_line(const Json& a) {
  const std::string kind = a.value("kind", ""), doc = a.value("doc", "");
  const std::string value = a.value("required", false) ? "required"
                            : a["default"].is_null()   ? "not set"
                                                       : "default " + a["default"].dump();
  return fmt::format("    {:<20} {}{}{}{}{}\n", a.value("name", ""), kind, kind.empty() ? "" : ", ", value,
                     doc.empty() ? "" : "; ", doc);
}

}  // namespace

Json list_models() {
  Json rows = Json::array();
  for (const model::ZooRow& row : model::zoo()) {
    const model::ModelInput input = row.input();
    Json options = Json::array();
    for (const OptionSpec& o : row.options)
      options.push_back(attr_row(o.name, "a number", false, OptionValues().number(o), o.doc));
    rows.push_back({{"name", row.name},
                    {"doc", row.doc},
                    {"task", task_name(input.task)},
                    {"sample_shape", dims(input.sample_shape)},
                    {"classes", input.num_classes},
                    {"parameters", count_parameters(row)},
                    {"options", options}});
  }
  return rows;
}

Json list_optimizers() {
  Json rows = Json::array();
  for (const model::OptimizerRow& row : model::optimizer_table()) {
    Json states = Json::array();
    for (const model::StateRow& s : row.states) states.push_back(s.name);
    rows.push_back({{"name", row.name},
                    {"doc", row.doc},
                    {"op", row.op->name},
                    {"states", states},
                    {"counts_steps", row.counts_steps},
                    {"lr", row.lr},
                    {"attrs", option_rows(row.options, row.fixed)}});
  }
  return rows;
}

Json list_schedules() {
  Json rows = Json::array();
  for (const model::ScheduleRow& row : model::schedule_table())
    rows.push_back({{"name", row.name}, {"doc", row.doc}});
  return rows;
}

Json list_layers() {
  Json rows = Json::array();
  for (const model::LayerRow& row : model::layer_table()) {
    Json attrs = Json::array();
    for (const model::LayerAttr& a : row.attrs) attrs.push_back(layer_attr(a));
    rows.push_back({{"name", row.kind}, {"doc", row.doc}, {"attrs", attrs}});
  }
  return rows;
}

Json list_styles() {
  Json rows = Json::array();
  for (const parallel::StyleRow& row : parallel::style_table())
    rows.push_back({{"name", row.name}, {"doc", row.doc}});
  return rows;
}

Json list_data() {
  Json rows = Json::array();
  for (const data::DataKind& row : data::data_kinds())
    rows.push_back({{"name", row.name},
                    {"doc", row.doc},
                    {"needs_path", row.needs_path},
                    {"attrs", option_rows(row.options)}});
  return rows;
}

void print_rows(const Json& rows) {
  for (const Json& row : rows) {
    print_text(fmt::format("{:<30} {}\n", row.value("name", ""), row.value("doc", "")));
    if (row.contains("parameters"))
      print_text(fmt::format("    reads {} ({} classes), {} parameters\n", row["sample_shape"].dump(),
                             row["classes"].dump(), row["parameters"].dump()));
    if (row.contains("needs_server"))
      print_text(fmt::format("    {}; {}{}{}\n", row.value("paper", ""),
                             row.value("synchronous", false) ? "synchronous" : "asynchronous",
                             row.value("needs_server", false) ? ", over parameter servers" : "",
                             row["keys"].empty() ? "" : "; reads " + row["keys"].dump()));
    if (row.contains("lr")) print_text(fmt::format("    learning rate {} unless set\n", row["lr"].dump()));
    if (row.contains("states") && !row["states"].empty())
      print_text(fmt::format("    keeps per parameter {}\n", row["states"].dump()));
    for (const char* list : {"attrs", "options"})
      for (const Json& a : row.value(list, Json::array())) print_text(attr_line(a));
  }
}

}  // namespace trireme::cli
