// `trireme inspect job [--markdown]`: the keys of a job file; docs/job.md is what --markdown prints.
#include "trireme/cli/inspect/parts.h"

namespace trireme::cli {
namespace {

struct JobArgs {
  bool json = false, markdown = false;
};

// Everything before the last dot; "" for keys outside of tables.
std::string table_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : path.substr(0, dot));
}

struct Intro {
  std::string_view table, text;
};
constexpr Intro kIntros[] = {
    {"", "Outside of any table, at the top of the file."},
    {"model", "The model: one of the zoo, or a list of layers."},
    {"data", "The data. The section on data says which keys each kind reads."},
    {"data.augment",
     "Augmentation of training images. It depends on the seed, the epoch and the sample alone."},
    {"train", "Length of the training, batch size, seed, device, checkpoints and evaluations."},
    {"train.optimizer",
     "The optimizer and its learning rate. Keys that a kind of optimizer does not have are refused; the "
     "section on optimizers has the defaults."},
    {"parallel", "The workers, how they keep one model, and how they communicate."},
};

std::string intro_of(const std::string& table) {
  for (const Intro& row : kIntros)
    if (row.table == table) return std::string(row.text);
  return "";
}

// In a cell of a table a bar would end it, and <n> would be a tag.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') {
      out += "\\|";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string key_tables() {
  const job::Job defaults;
  std::string text, now = "-";
  for (const job::JobKey& key : job::job_keys()) {
    if (const std::string table = table_of(key.path); table != now) {
      now = table;
      text += fmt::format(
          "\n## {}\n{}\n\n| key | type | default | decides the result | meaning |\n|---|---|---|---|---|\n",
          table.empty() ? "Top level" : fmt::format("[{}]", table), intro_of(table));
    }
    const std::string value = job::value_text(defaults, key);
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.path, job::value_kind(key),
                        value.empty() ? "not set" : fmt::format("`{}`", cell(value)),
                        key.decides_result ? "yes" : "no", cell(key.doc));
  }
  return text;
}

std::string attr_cells(const Json& row) {
  std::vector<std::string> parts;
  for (const Json& a : row["attrs"]) {
    parts.push_back(a.value("required", false)
                        ? fmt::format("`{}` (required)", a.value("name", ""))
                        : fmt::format("`{}` = {}", a.value("name", ""), cell(a["default"].dump())));
  }
  return joined(parts);
}

std::string optimizers() {
  std::string text =
      "\n## Optimizers\n`train.optimizer.kind` is one of these. Defaults and formulas are PyTorch's.\n\n"
      "| kind | what | keys and their defaults | state per parameter |\n|---|---|---|---|\n";
  for (const Json& row : list_optimizers()) {
    std::vector<std::string> states;
    for (const Json& s : row["states"]) states.push_back(s.get<std::string>());
    text +=
        fmt::format("| `{}` | {} | `lr` = {}, {} | {} |\n", row.value("name", ""), cell(row.value("doc", "")),
                    row["lr"].dump(), attr_cells(row), states.empty() ? "none" : joined(states));
  }
  return text;
}

std::string data_kinds() {
  std::string text =
      "\n## Data\n`data.kind` is one of these ([how_to_own_data.md](how_to_own_data.md)). A key that the "
      "kind "
      "does not have is without effect.\n\n| name | what | keys and their defaults |\n|---|---|---|\n";
  for (const Json& row : list_data()) {
    const std::string attrs = attr_cells(row);
    text += fmt::format("| `{}` | {} | {} |\n", row.value("name", ""), cell(row.value("doc", "")),
                        attrs.empty() ? "none" : attrs);
  }
  return text;
}

std::string named_table(const char* title, const char* intro, const Json& rows) {
  std::string text = fmt::format("\n## {}\n{}\n\n| name | what |\n|---|---|\n", title, intro);
  for (const Json& row : rows)
    text += fmt::format("| `{}` | {} |\n", row.value("name", ""), cell(row.value("doc", "")));
  return text;
}

std::string layers() {
  std::string text =
      "\n## Layers\nA row of `model.layers` has a `kind`, perhaps a `name`, and these attributes "
      "([how_to_own_model.md](how_to_own_model.md)).\n\n| kind | what | attributes and their defaults "
      "|\n|---|---|---|\n";
  for (const Json& row : list_layers()) {
    const std::string attrs = attr_cells(row);
    text += fmt::format("| `{}` | {} | {} |\n", row.value("name", ""), cell(row.value("doc", "")),
                        attrs.empty() ? "none" : attrs);
  }
  return text;
}

}  // namespace

std::string job_page() {
  std::string text =
      "# Job files: every key\n\n"
      "`trireme inspect job --markdown` prints this page from the tables of the program; a test compares "
      "them. How to use jobs:\n"
      "[how_to_train.md](how_to_train.md).\n\n"
      "A job is TOML. Keys that are left out keep their defaults. Unknown keys are refused with the nearest "
      "known name, and errors\n"
      "say file, line and column. `--set key=value` overrides the file: `--set train.epochs=5`, `--set\n"
      "'train.optimizer.milestones=[0.5, 0.75]'`, `--set 'model.options={width = 64}'`. A key that decides "
      "the result may not\n"
      "change when an unfinished run is resumed; the others may.\n";
  text += key_tables();
  text += optimizers();
  text += named_table(
      "Schedules",
      "`train.optimizer.schedule` is one of these; `trireme inspect schedules --plot NAME` draws it.",
      list_schedules());
  text += data_kinds();
  text += named_table(
      "Models", "`model.name` is one of these; `trireme inspect model NAME` shows its layers and costs.",
      list_models());
  return text + layers();
}

Json list_job_keys() {
  const job::Job defaults;
  Json rows = Json::array();
  for (const job::JobKey& key : job::job_keys()) {
    const std::string value = job::value_text(defaults, key);
    rows.push_back({{"name", key.path},
                    {"kind", job::value_kind(key)},
                    {"default", value.empty() ? Json() : Json(value)},
                    {"decides_result", key.decides_result},
                    {"doc", key.doc}});
  }
  return rows;
}

std::function<int()> add_inspect_job(Options& inspect) {
  auto args = std::make_shared<JobArgs>();
  Options* sub = inspect.add_subcommand("job", "List the keys of a job file, with their defaults.");
  Option* json = sub->add_flag("--json", args->json, "As JSON");
  sub->add_flag("--markdown", args->markdown, "Print the page docs/job.md")->excludes(json);
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    if (args->markdown) print_text(job_page());
    if (args->json) print_text(list_job_keys().dump(2) + "\n");
    if (!args->markdown && !args->json) print_rows(list_job_keys());
    return kExitOk;
  };
}

}  // namespace trireme::cli
