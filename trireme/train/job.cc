#include "trireme/train/job.h"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <sstream>

#include "trireme/agree/agree.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/collective/schedule.h"
#include "trireme/data/source.h"
#include "trireme/model/zoo.h"

namespace trireme::train {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

const JobKey* find_key(std::string_view path) {
  for (const JobKey& key : job_keys())
    if (key.path == path) return &key;
  return nullptr;
}

Status unknown_key(std::string_view path) {
  std::string_view nearest;
  std::size_t best = SIZE_MAX;
  for (const JobKey& key : job_keys()) {
    const std::size_t d = edit_distance(path, key.path);
    if (d < best) best = d, nearest = key.path;
  }
  return error(Code::kInvalid, "[job] unknown key '{}'; did you mean '{}'?", path, nearest);
}

const char* type_name(const JobKey& key) {
  static constexpr const char* kNames[] = {"a whole number", "a number", "a text", "true or false"};
  return kNames[key.field.index()];
}

Status wrong_type(const JobKey& key, std::string_view got) {
  return error(Code::kInvalid, "[job] key '{}': got {}, expected {}", key.path, got, type_name(key));
}

Status set_from_toml(Job& job, const JobKey& key, const toml::node& node) {
  if (const auto* get = std::get_if<0>(&key.field)) {
    if (const auto* v = node.as_integer()) return *(*get)(job) = v->get(), Status();
  } else if (const auto* get = std::get_if<1>(&key.field)) {
    if (const auto* v = node.as_floating_point()) return *(*get)(job) = v->get(), Status();
    if (const auto* v = node.as_integer()) return *(*get)(job) = static_cast<double>(v->get()), Status();
  } else if (const auto* get = std::get_if<2>(&key.field)) {
    if (const auto* v = node.as_string()) return *(*get)(job) = v->get(), Status();
  } else if (const auto* get = std::get_if<3>(&key.field)) {
    if (const auto* v = node.as_boolean()) return *(*get)(job) = v->get(), Status();
  }
  std::ostringstream type;
  type << node.type();
  return wrong_type(key, type.str());
}

Status read_table(Job& job, const toml::table& table, const std::string& prefix, std::string_view source) {
  for (const auto& [name, node] : table) {
    const std::string path = prefix + std::string(name.str());
    const toml::source_position at = node.source().begin;
    const std::string where = fmt::format("{}:{}:{}: ", source, at.line, at.column);
    Status status;
    if (const auto* inner = node.as_table()) {
      status = read_table(job, *inner, path + ".", source);
      if (!status.ok()) return status;
      continue;
    }
    const JobKey* key = find_key(path);
    status = key ? set_from_toml(job, *key, node) : unknown_key(path);
    if (!status.ok()) return status.with_prefix(where);
  }
  return {};
}

std::string value_text(Job& job, const JobKey& key) {
  if (const auto* get = std::get_if<0>(&key.field)) return fmt::format("{}", *(*get)(job));
  if (const auto* get = std::get_if<1>(&key.field)) {
    std::string text = fmt::format("{}", *(*get)(job));
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  if (const auto* get = std::get_if<3>(&key.field)) return *(*get)(job) ? "true" : "false";
  // A JSON string is a TOML basic string. Not toml++'s printer: its quotes differ by version, and job_sha256
  // hashes this.
  const Json text = *(*std::get_if<2>(&key.field))(job);
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status expect(bool holds, std::string_view key, std::string_view rule) {
  if (holds) return {};
  return error(Code::kInvalid, "[job] key '{}' must be {}", key, rule);
}

// A name that a table does not know is the user's mistake here.
Status refused(const Status& status) {
  return status.ok() ? status : Status(Code::kInvalid, status.message());
}

}  // namespace

Result<Job> parse_job(std::string_view text, std::string_view source) {
  Job job;
  try {
    const toml::table table = toml::parse(text, source);
    TR_RETURN_IF_ERROR(read_table(job, table, "", source));
  } catch (const toml::parse_error& e) {
    const auto at = e.source().begin;
    return error(Code::kInvalid, "{}:{}:{}: [job] not valid TOML: {}", source, at.line, at.column,
                 e.description());
  }
  return job;
}

Status set_job_key(Job& job, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    return error(Code::kInvalid, "[job] --set got '{}', expected key=value", assignment);
  const std::string_view path = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  const JobKey* key = find_key(path);
  if (key == nullptr) return unknown_key(path);
  if (const auto* get = std::get_if<2>(&key->field)) return *(*get)(job) = std::string(value), Status();
  if (const auto* get = std::get_if<3>(&key->field)) {
    if (value != "true" && value != "false") return wrong_type(*key, fmt::format("'{}'", value));
    return *(*get)(job) = value == "true", Status();
  }
  const char* end = value.data() + value.size();
  if (const auto* get = std::get_if<0>(&key->field)) {
    std::int64_t number = 0;
    const auto [at, failure] = std::from_chars(value.data(), end, number);
    if (failure != std::errc() || at != end) return wrong_type(*key, fmt::format("'{}'", value));
    return *(*get)(job) = number, Status();
  }
  double number = 0;
  const auto [at, failure] = std::from_chars(value.data(), end, number);
  if (failure != std::errc() || at != end) return wrong_type(*key, fmt::format("'{}'", value));
  return *(*std::get_if<1>(&key->field))(job) = number, Status();
}

Status check_job(const Job& job) {
  const auto& t = job.train;
  const auto& p = job.parallel;
  const auto& o = t.optimizer;
  const bool plain_name = !job.name.empty() && job.name.find_first_of("/\\ \n\t") == std::string::npos;
  TR_RETURN_IF_ERROR(expect(plain_name, "name", "a word without slashes or blanks"));
  std::string models;
  bool known_model = false;
  for (const model::ZooRow& row : model::zoo()) {
    known_model |= job.model.name == row.name;
    models += fmt::format("{}{}", models.empty() ? "" : ", ", row.name);
  }
  TR_RETURN_IF_ERROR(expect(known_model, "model.name", "one of: " + models));
  std::string kinds;
  bool known_kind = false;
  for (const data::DataKind& kind : data::data_kinds()) {
    if (kind.name == std::string_view("text")) continue;  // the trainer feeds images only
    known_kind |= job.data.kind == kind.name;
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", kind.name);
  }
  TR_RETURN_IF_ERROR(expect(known_kind, "data.kind", "one of: " + kinds));
  TR_RETURN_IF_ERROR(
      expect(job.data.limit_train >= 0 && job.data.limit_test >= 0, "data.limit_train", "0 or more"));
  TR_RETURN_IF_ERROR(expect(t.epochs >= 1 && t.epochs < 1'000'000, "train.epochs", "1 or more"));
  TR_RETURN_IF_ERROR(expect(t.steps >= 0, "train.steps", "0 or more"));
  TR_RETURN_IF_ERROR(expect(t.batch >= 1 && t.batch <= 1 << 20, "train.batch", "between 1 and 1048576"));
  TR_RETURN_IF_ERROR(expect(t.logical_shards >= 0 && t.logical_shards <= 65536, "train.logical_shards",
                            "between 0 and 65536"));
  TR_RETURN_IF_ERROR(
      expect(t.shard_threads >= 0 && t.shard_threads <= 1024, "train.shard_threads", "between 0 and 1024"));
  TR_RETURN_IF_ERROR(expect(t.checkpoint_steps >= 0, "train.checkpoint_steps", "0 or more"));
  TR_RETURN_IF_ERROR(
      expect(o.kind == "momentum" || o.kind == "sgd", "train.optimizer.kind", "momentum or sgd"));
  TR_RETURN_IF_ERROR(expect(o.lr > 0 && o.lr < 1e6, "train.optimizer.lr", "above 0"));
  TR_RETURN_IF_ERROR(
      expect(o.momentum >= 0 && o.momentum < 1, "train.optimizer.momentum", "at least 0 and below 1"));
  TR_RETURN_IF_ERROR(expect(o.weight_decay >= 0, "train.optimizer.weight_decay", "0 or more"));
  TR_RETURN_IF_ERROR(expect(o.schedule == "constant" || o.schedule == "cosine", "train.optimizer.schedule",
                            "constant or cosine"));
  TR_RETURN_IF_ERROR(
      expect(o.warmup >= 0 && o.warmup < 1, "train.optimizer.warmup", "at least 0 and below 1"));
  TR_RETURN_IF_ERROR(expect(p.workers >= 1 && p.workers <= 65536, "parallel.workers", "between 1 and 65536"));
  TR_RETURN_IF_ERROR(expect(p.codec == "none", "parallel.codec", "none"));
  constexpr std::array kTransports{"auto", "shm", "tcp", "mpi", "inproc"};
  const bool known = std::find(kTransports.begin(), kTransports.end(), p.transport) != kTransports.end();
  TR_RETURN_IF_ERROR(expect(known, "parallel.transport", "auto, shm, tcp, mpi or inproc"));
  TR_RETURN_IF_ERROR(expect(p.bucket_bytes >= 1, "parallel.bucket_bytes", "1 or more"));
  TR_RETURN_IF_ERROR(expect(p.deadline_ms >= 100, "parallel.deadline_ms", "100 or more"));
  TR_RETURN_IF_ERROR(refused(agree::find_agreement(p.agreement).status()));
  TR_RETURN_IF_ERROR(
      refused(collective::find_algorithm(collective::Kind::kAllreduce, p.collective).status()));
  TR_RETURN_IF_ERROR(expect(p.collective != "hierarchical", "parallel.collective",
                            "an algorithm that needs no groups of ranks"));
  const std::int64_t shards = t.logical_shards > 0 ? t.logical_shards : p.workers;
  if (p.workers > shards)
    return error(
        Code::kInvalid,
        "[job] {} workers cannot share {} logical shards: use --workers {} or set train.logical_shards={}",
        p.workers, shards, shards, p.workers);
  if (t.batch < shards)
    return error(
        Code::kInvalid,
        "[job] a batch of {} samples cannot be cut into {} logical shards: set train.batch to {} or more",
        t.batch, shards, shards);
  return {};
}

std::string to_toml(const Job& job) {
  Job copy = job;
  std::string out, section;
  for (const JobKey& key : job_keys()) {
    const std::size_t dot = key.path.rfind('.');
    const std::string in(dot == std::string_view::npos ? "" : key.path.substr(0, dot));
    if (in != section) out += fmt::format("\n[{}]\n", in), section = in;
    out += fmt::format("{} = {}\n", key.path.substr(dot == std::string_view::npos ? 0 : dot + 1),
                       value_text(copy, key));
  }
  return out;
}

std::string diff_jobs(const Job& before, const Job& after) {
  Job a = before, b = after;
  std::string out;
  for (const JobKey& key : job_keys()) {
    if (!key.decides_result) continue;
    const std::string was = value_text(a, key), is = value_text(b, key);
    if (was != is) out += fmt::format("  {}: {} -> {}\n", key.path, was, is);
  }
  return out;
}

std::string job_sha256(const Job& job) {
  Job copy = job;
  std::string text;
  for (const JobKey& key : job_keys())
    if (key.decides_result) text += fmt::format("{} = {}\n", key.path, value_text(copy, key));
  return sha256_hex(as_bytes(text));
}

}  // namespace trireme::train
