#include "trireme/record/run_record.h"

#include <chrono>

#include "trireme/base/units.h"
#include "trireme/base/version.h"

namespace trireme::record {
namespace {

using runtime::Task;

constexpr RunState kWritten[] = {RunState::kRunning, RunState::kDone, RunState::kStopped, RunState::kFailed};
constexpr std::size_t kMostShown = 200;  // of a command, in characters

Result<RunState> state_named(std::string_view name) {
  for (const RunState state : kWritten)
    if (name == name_of(state)) return state;
  return error(Code::kCorrupt, "[run] state: got '{}', expected running, done, stopped or failed", name);
}

// Commands and host names need not be UTF-8.
std::string dump(const Json& json) { return json.dump(2) + "\n"; }

std::string path_of(const std::string& run_dir) { return run_dir + "/run.json"; }

std::string text_in(const Json& json, const char* key) {
  const Result<std::string> text = json_get<std::string>(json, key);
  return text.ok() ? *text : "?";
}

// Null where there are none.
Result<Json> coordinates_in(const Json& json) {
  if (!json.contains("coordinates")) return Json(nullptr);
  TR_ASSIGN_OR_RETURN(const Json all, json_get<Json>(json, "coordinates"));
  bool good = all.is_object();
  for (const Json& at : all) good = good && at.is_number_integer();
  if (good) return all;
  return error(Code::kCorrupt, "[run] coordinates: got {}, expected a number for each axis", all.dump());
}

// " (data 1, model 0)", or nothing.
std::string place_text(const RunRecord& r) {
  std::string text;
  for (const auto& [axis, at] : r.coordinates.items())
    text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", axis, at.get<std::int64_t>());
  return text.empty() ? text : text + ")";
}

std::string shortened(const std::string& command) {
  return command.size() <= kMostShown ? command : command.substr(0, kMostShown) + "...";
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kDone:
      return "done";
    case RunState::kStopped:
      return "stopped";
    case RunState::kFailed:
      return "failed";
    case RunState::kDied:
      return "died";
  }
  return "";
}

Json to_json(const RunRecord& r) {
  Json json = {{"version", r.version},      {"build", r.build},     {"command", r.command},
               {"hosts", r.hosts},          {"started", r.started}, {"ended", nullptr},
               {"state", name_of(r.state)}, {"culprit", nullptr},   {"operation", r.operation},
               {"reason", r.reason}};
  if (!r.ended.empty()) json["ended"] = r.ended;
  if (r.culprit) json["culprit"] = *r.culprit;
  if (!r.coordinates.is_null()) json["coordinates"] = r.coordinates;
  return json;
}

Result<RunRecord> run_record_from_json(const Json& json) {
  RunRecord r;
  TR_ASSIGN_OR_RETURN(r.version, json_get<std::string>(json, "version"));
  TR_ASSIGN_OR_RETURN(r.build, json_get<std::string>(json, "build"));
  TR_ASSIGN_OR_RETURN(r.command, json_get<std::string>(json, "command"));
  TR_ASSIGN_OR_RETURN(r.hosts, json_get<std::vector<std::string>>(json, "hosts"));
  TR_ASSIGN_OR_RETURN(r.started, json_get<std::string>(json, "started"));
  TR_ASSIGN_OR_RETURN(const std::string state, json_get<std::string>(json, "state"));
  TR_ASSIGN_OR_RETURN(r.state, state_named(state));
  if (const Result<std::string> ended = json_get<std::string>(json, "ended"); ended.ok()) r.ended = *ended;
  if (const Result<int> culprit = json_get<int>(json, "culprit"); culprit.ok()) r.culprit = *culprit;
  TR_ASSIGN_OR_RETURN(r.coordinates, coordinates_in(json));
  TR_ASSIGN_OR_RETURN(r.operation, json_get<std::string>(json, "operation"));
  TR_ASSIGN_OR_RETURN(r.reason, json_get<std::string>(json, "reason"));
  return r;
}

RunRecord begin_record(const RunOwner& owner, std::int64_t unix_ns) {
  RunRecord r;
  r.version = version();
  r.build = build_id();
  r.command = owner.command;
  r.hosts = {owner.host};
  r.started = utc_text(unix_ns);
  return r;
}

void end_record(RunRecord& r, RunState state, const Status& failure, const job::Roles& roles,
                std::int64_t unix_ns) {
  r.state = state;
  r.ended = utc_text(unix_ns);
  if (failure.ok()) return;
  const ErrorContext& context = failure.context();
  r.culprit = context.peer;
  if (r.culprit) r.coordinates = roles.coordinates(*r.culprit);
  r.operation = context.operation;
  r.reason = context.reason.empty() ? failure.message() : context.reason;
}

Task<Status> write_run_record(runtime::Runtime& rt, std::string run_dir, RunRecord record) {
  const std::string text = dump(to_json(record));
  co_return co_await rt.files().write_atomic(path_of(run_dir), as_bytes(text));
}

Task<Result<RunRecord>> read_run_record(runtime::Runtime& rt, std::string run_dir) {
  Result<Bytes> bytes = co_await rt.files().read(path_of(run_dir));
  if (!bytes.ok()) co_return bytes.status();
  TR_CO_ASSIGN_OR_RETURN(const Json json, parse_json(as_text(*bytes), path_of(run_dir)));
  Result<RunRecord> record = run_record_from_json(json);
  if (!record.ok()) co_return record.status().with_prefix(path_of(run_dir) + ": ");
  if (record->state != RunState::kRunning) co_return record;
  // Without locks nobody knows better than the record.
  const Result<std::optional<std::string>> holder = co_await rt.files().lock_holder(lock_path(run_dir));
  if (holder.ok() && !holder->has_value()) record->state = RunState::kDied;
  co_return record;
}

std::string describe(const RunRecord& r) {
  switch (r.state) {
    case RunState::kRunning:
      return fmt::format("running since {}", r.started);
    case RunState::kDied:
      return fmt::format("died (started {}, it left no end)", r.started);
    case RunState::kFailed: {
      const std::string who = r.culprit ? fmt::format("rank {}{}: ", *r.culprit, place_text(r)) : "";
      return fmt::format("failed at {}: {}{}", r.ended, who, r.reason);
    }
    default:
      return fmt::format("{} at {}", name_of(r.state), r.ended);
  }
}

std::string lock_path(const std::string& run_dir) { return run_dir + "/run.lock"; }

std::string holder_text(const RunOwner& owner, std::int64_t unix_ns) {
  return dump(
      {{"host", owner.host}, {"pid", owner.pid}, {"started", utc_text(unix_ns)}, {"command", owner.command}});
}

std::string describe_holder(std::string_view holder) {
  const Result<Json> json = parse_json(holder, "a lock");
  const Result<std::int64_t> pid =
      json.ok() ? json_get<std::int64_t>(*json, "pid") : Result<std::int64_t>(json.status());
  if (!pid.ok()) return "another process";
  return fmt::format("process {} on {} since {} ({})", *pid, text_in(*json, "host"),
                     text_in(*json, "started"), shortened(text_in(*json, "command")));
}

std::string utc_text(std::int64_t unix_ns) {
  using std::chrono::sys_days;
  const std::int64_t second = unix_ns / kSecond;
  const std::int64_t days = second / 86400, of_day = second % 86400;
  const std::chrono::year_month_day date{sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day / 3600,
                     of_day / 60 % 60, of_day % 60);
}

}  // namespace trireme::record
