// Jobs as TOML text: reading, --set, writing, comparing. What values make sense is in job_check.cc.
#include "trireme/job/job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "trireme/base/edit_distance.h"
#include "trireme/base/hash.h"
#include "trireme/base/utf8.h"
#include "trireme/job/toml.h"

namespace trireme::job {
namespace {

const JobKey* find_key(std::string_view path) {
  for (const JobKey& key : job_keys())
    if (key.path == path || (!key.old_path.empty() && key.old_path == path)) return &key;
  return nullptr;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// The nearest key; one with the same last part in another table beats one that is spelled alike.
Status unknown_key(std::string_view path) {
  const std::string table = std::string(path) + ".";
  for (const JobKey& key : job_keys())
    if (key.path.starts_with(table))
      return error(Code::kInvalid, "[job] '{}' is a table of keys, not a key; set one of them, like {}", path,
                   key.path);
  constexpr std::size_t kLongest = 64;  // of no key; keeps the search short whatever is given
  std::string_view nearest;
  std::size_t best = SIZE_MAX;
  for (const JobKey& key : job_keys()) {
    std::size_t d = 4 * edit_distance(path.substr(0, kLongest), key.path);
    if (last_part(path) == last_part(key.path)) d = std::min<std::size_t>(d, 6);
    if (d < best) best = d, nearest = key.path;
  }
  // One letter in three may be wrong: further away it is another word.
  if (best > 4 * std::max<std::size_t>(2, path.size() / 3))
    return error(Code::kInvalid, "[job] unknown key '{}'; trireme inspect job lists the keys", path);
  return error(Code::kInvalid, "[job] unknown key '{}'; did you mean '{}'?", path, nearest);
}

Status wrong_type(const JobKey& key, std::string_view got) {
  return error(Code::kInvalid, "[job] key '{}': got {}, expected {}", key.path, got, value_kind(key));
}

// job.toml is TOML, and TOML is UTF-8: what it cannot hold is refused before anything is trained.
Status not_utf8(const JobKey& key, std::string_view value) {
  const bool is_path = last_part(key.path) == "path";
  return error(Code::kInvalid, "[job] key '{}': got '{}', expected UTF-8{}", key.path, escape_bytes(value),
               is_path ? ": job files cannot hold other names; rename it, or make a link to it (ln -s) and "
                         "give that"
                       : "");
}

// ---- TOML to values
std::optional<double> number_of(const toml::node& node) {
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_integer()) return static_cast<double>(v->get());
  return std::nullopt;
}

// False: holds something that a job has no use for, such as a date.
bool to_json(const toml::node& node, Json& out) {
  if (const auto* t = node.as_table()) {
    out = Json::object();
    return std::all_of(t->begin(), t->end(), [&](const auto& item) {
      return to_json(item.second, out[std::string(item.first.str())]);
    });
  }
  if (const auto* a = node.as_array()) {
    out = Json::array();
    return std::all_of(a->begin(), a->end(),
                       [&](const toml::node& item) { return to_json(item, out.emplace_back()); });
  }
  if (const auto* v = node.as_string()) return out = v->get(), true;
  if (const auto* v = node.as_boolean()) return out = v->get(), true;
  if (const auto* v = node.as_integer()) return out = v->get(), true;
  if (const auto* v = node.as_floating_point()) return out = v->get(), std::isfinite(v->get());
  return false;
}

bool set_value(const toml::node& node, std::int64_t& out) {
  const auto* v = node.as_integer();
  return v != nullptr && (out = v->get(), true);
}
bool set_value(const toml::node& node, double& out) {
  const auto v = number_of(node);
  return v && (out = *v, true);
}
bool set_value(const toml::node& node, std::string& out) {
  const auto* v = node.as_string();
  return v != nullptr && (out = v->get(), true);
}
bool set_value(const toml::node& node, bool& out) {
  const auto* v = node.as_boolean();
  return v != nullptr && (out = v->get(), true);
}
template <class T>
bool set_value(const toml::node& node, std::vector<T>& out) {
  const auto* list = node.as_array();
  std::vector<T> items;
  if (list == nullptr || !std::all_of(list->begin(), list->end(), [&](const toml::node& item) {
        return set_value(item, items.emplace_back());
      }))
    return false;
  out = std::move(items);
  return true;
}
template <class T>
bool set_value(const toml::node& node, std::optional<T>& out) {
  T value{};
  return set_value(node, value) && (out = value, true);
}
bool set_value(const toml::node& node, Json& out) {
  Json json;
  if (!to_json(node, json) || json.type() != out.type()) return false;
  out = std::move(json);
  return true;
}

bool set_field(Job& job, const OptionField& field, const toml::node& node) {
  OptionValue value = field.spec->initial();
  if (!std::visit([&](auto& v) { return set_value(node, v); }, value)) return false;
  options_of(job, field.family).set(field.spec->name, std::move(value));
  return true;
}
template <class T>
bool set_field(Job& job, T* (*get)(Job&), const toml::node& node) {
  return set_value(node, *get(job));
}

bool takes_table(const JobKey& key) { return std::holds_alternative<Json* (*)(Job&)>(key.field); }

Status set_from_toml(Job& job, const JobKey& key, const toml::node& node) {
  if (std::visit([&](auto field) { return set_field(job, field, node); }, key.field)) return {};
  if (Json json; takes_table(key) && !to_json(node, json))
    return wrong_type(key, "a date, a time or a number that is not finite inside");
  std::ostringstream type;
  type << node.type();
  return wrong_type(key, "a value of type " + type.str());
}

Status read_table(Job& job, const toml::table& table, const std::string& prefix, std::string_view source) {
  for (const auto& [name, node] : table) {
    const std::string path = prefix + std::string(name.str());
    const JobKey* key = find_key(path);
    if (const auto* inner = node.as_table(); inner != nullptr && (key == nullptr || !takes_table(*key))) {
      TR_RETURN_IF_ERROR(read_table(job, *inner, path + ".", source));
      continue;
    }
    const toml::source_position at = node.source().begin;
    const std::string where = fmt::format("{}:{}:{}", source, at.line, at.column);
    const Status status = key ? set_from_toml(job, *key, node) : unknown_key(path);
    if (!status.ok()) return status.with_prefix(where + ": ");
    job.given_at[std::string(key->path)] = where;
  }
  return {};
}

// ---- Values to TOML
std::string text_of(std::int64_t v) { return fmt::format("{}", v); }
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(double v) {
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
// A JSON string is a TOML basic string, and set_job_key lets in UTF-8 alone. Not toml++'s printer: its quotes
// differ by version, and job_sha256 hashes this. TOML wants DEL escaped, JSON does not.
std::string text_of(const std::string& v) {
  const std::string text = Json(v).dump();
  std::string out;
  for (const char c : text) out += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
  return out;
}
template <class T>
std::string text_of(const std::vector<T>& v) {
  std::string out;
  for (const T& item : v) out += (out.empty() ? "" : ", ") + text_of(item);
  return "[" + out + "]";
}
template <class T>
std::string text_of(const std::optional<T>& v) {
  return v ? text_of(*v) : std::string();
}
std::string text_of(const Json& v) {
  std::string out;
  if (v.is_object()) {
    std::map<std::string, const Json*> sorted;  // as TOML tables come: the order of keys does not count
    for (const auto& [name, item] : v.items()) sorted[name] = &item;
    for (const auto& [name, item] : sorted)
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", text_of(name), text_of(*item));
    return "{" + out + "}";
  }
  if (v.is_array()) {
    for (const Json& item : v) out += (out.empty() ? "" : ", ") + text_of(item);
    return "[" + out + "]";
  }
  if (v.is_boolean()) return text_of(v.get<bool>());
  if (v.is_number_integer()) return text_of(v.get<std::int64_t>());
  if (v.is_number()) return text_of(v.get<double>());
  return text_of(v.is_string() ? v.get<std::string>() : std::string());
}

std::string text_of(const OptionValue& v) {
  return std::visit([](const auto& value) { return text_of(value); }, v);
}

std::string field_text(const Job& job, const OptionField& field) {
  const OptionValues& given = options_of(job, field.family);
  const OptionValue* value = given.find(field.spec->name);
  if (value == nullptr) return field.writes_default ? text_of(field.spec->initial()) : "";
  const bool is_number = std::holds_alternative<double>(field.spec->default_value);
  return is_number ? text_of(given.number(*field.spec)) : text_of(*value);
}
// Fields are found in a Job that may change; nothing here changes it.
template <class T>
std::string field_text(const Job& job, T* (*get)(Job&)) {
  return text_of(*get(const_cast<Job&>(job)));
}

// Texts of --set are taken as they are.
bool set_text(Job& job, const JobKey& key, std::string_view value) {
  if (const auto* text = std::get_if<std::string* (*)(Job&)>(&key.field))
    return *(*text)(job) = std::string(value), true;
  const auto* option = std::get_if<OptionField>(&key.field);
  if (option == nullptr || !std::holds_alternative<std::string_view>(option->spec->default_value))
    return false;
  return options_of(job, option->family).set(option->spec->name, value), true;
}

Status not_toml(std::string_view source, const toml::parse_error& e) {
  const auto at = e.source().begin;
  // The parser blames the line break, or the end, that it finds inside a string.
  const std::string_view said = e.description();
  const bool in_string = said.find("parsing string") != std::string_view::npos;
  if (in_string && (said.find("control characters") != std::string_view::npos ||
                    said.find("end-of-file") != std::string_view::npos))
    return error(
        Code::kInvalid,
        "{}:{}:{}: [job] not valid TOML: the string is not closed; expected a quote before the end of "
        "the line",
        source, at.line, at.column);
  return error(Code::kInvalid, "{}:{}:{}: [job] not valid TOML: {}", source, at.line, at.column, said);
}

// The value of --set as a TOML node under "value". Texts need no quotes, lists no brackets.
Result<toml::table> parse_set_value(const JobKey& key, std::string_view value) {
  std::string text(value);
  using Texts = std::vector<std::string>;
  const bool texts = std::holds_alternative<Texts* (*)(Job&)>(key.field) ||
                     std::holds_alternative<std::optional<Texts>* (*)(Job&)>(key.field);
  const bool list = texts || std::holds_alternative<std::vector<double>* (*)(Job&)>(key.field);
  if (list && !value.starts_with('[')) {
    std::string items;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::string item = text.substr(at, end - at);
      items += (items.empty() ? "" : ", ") + (texts ? text_of(item) : item);
      at = end + 1;
    }
    text = "[" + items + "]";
  }
  try {
    toml::table table = toml::parse("value = " + text + "\n");
    if (table.size() != 1) return wrong_type(key, fmt::format("'{}'", value));
    return table;
  } catch (const toml::parse_error&) {
    return wrong_type(key, fmt::format("'{}'", value));
  }
}

}  // namespace

std::string_view value_kind(const JobKey& key) {
  static constexpr const char* kNames[] = {
      "an integer",        "a number",          "a string", "true or false", "a number",
      "a list of numbers", "a list of strings", "a table",  "an integer",    "a list of strings"};
  static constexpr const char* kOptionNames[] = {"an integer", "a number", "true or false", "a string"};
  if (const auto* option = std::get_if<OptionField>(&key.field))
    return kOptionNames[option->spec->default_value.index()];
  if (!takes_table(key)) return kNames[key.field.index()];
  return key.path == "model.layers" ? "a list of tables" : "a table";
}

Result<Job> parse_job(std::string_view text, std::string_view source) {
  Job job;
  try {
    const toml::table table = toml::parse(text, source);
    TR_RETURN_IF_ERROR(read_table(job, table, "", source));
  } catch (const toml::parse_error& e) {
    return not_toml(source, e);
  }
  return job;
}

Status set_job_key(Job& job, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    return error(Code::kInvalid, "[job] --set got '{}', expected key=value (a job file comes before --set)",
                 assignment);
  const std::string_view path = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  const JobKey* key = find_key(path);
  if (key == nullptr) return unknown_key(path);
  if (!is_utf8(value)) return not_utf8(*key, value);
  if (set_text(job, *key, value)) {
    job.given_at[std::string(key->path)] = "--set";
    return {};
  }
  TR_ASSIGN_OR_RETURN(const toml::table table, parse_set_value(*key, value));
  const toml::node* node = table.get("value");
  const bool set =
      node != nullptr && std::visit([&](auto field) { return set_field(job, field, *node); }, key->field);
  if (!set) return wrong_type(*key, fmt::format("'{}'", value));
  job.given_at[std::string(key->path)] = "--set";
  return {};
}

std::string value_text(const Job& job, const JobKey& key) {
  return std::visit([&](auto field) { return field_text(job, field); }, key.field);
}

std::string to_toml(const Job& job, std::span<const std::string_view> without) {
  std::string out, section;
  for (const JobKey& key : job_keys()) {
    const std::string value = value_text(job, key);
    if (value.empty() || std::find(without.begin(), without.end(), key.path) != without.end()) continue;
    if (key.path == "model.name" && !job.model.layers.empty()) continue;  // layers stand for it
    const std::size_t dot = key.path.rfind('.');
    const std::string in(dot == std::string_view::npos ? "" : key.path.substr(0, dot));
    if (in != section) out += fmt::format("\n[{}]\n", in), section = in;
    out += fmt::format("{} = {}\n", last_part(key.path), value);
  }
  return out;
}

std::string diff_jobs(const Job& before, const Job& after) {
  std::string out;
  const auto shown = [](const std::string& text) { return text.empty() ? "(not set)" : text; };
  for (const JobKey& key : job_keys()) {
    if (!key.decides_result) continue;
    const std::string was = value_text(before, key), is = value_text(after, key);
    if (was != is) out += fmt::format("  {}: {} -> {}\n", key.path, shown(was), shown(is));
  }
  return out;
}

std::string job_sha256(const Job& job) {
  std::string text;
  for (const JobKey& key : job_keys()) {
    const std::string value = value_text(job, key);
    const std::string_view name = key.old_path.empty() ? key.path : key.old_path;
    if (key.decides_result && !value.empty()) text += fmt::format("{} = {}\n", name, value);
  }
  return sha256_hex(as_bytes(text));
}

}  // namespace trireme::job
