#include "trireme/record/extend_run.h"

namespace trireme::record {

using runtime::Runtime;
using runtime::Task;

namespace {

// Sets one key of a JSON file. A file that is not there stays away.
Task<Status> rewrite(Runtime& rt, std::string path, const char* key, std::string value) {
  const Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok() && bytes.status().code() == Code::kNotFound) co_return Status();
  if (!bytes.ok()) co_return bytes.status();
  TR_CO_ASSIGN_OR_RETURN(Json json, parse_json(as_text(*bytes), path));
  if (!json.is_object())
    co_return error(Code::kCorrupt, "[json] {}: got {}, expected an object", path, json.type_name());
  json[key] = std::move(value);
  const std::string text = json.dump(2) + "\n";
  co_return co_await rt.files().write_atomic(path, as_bytes(text));
}

}  // namespace

bool trains_longer(const job::Job& before, const job::Job& after) {
  job::Job same = after;
  same.train.epochs = before.train.epochs;
  same.train.steps = before.train.steps;
  if (job::job_sha256(same) != job::job_sha256(before)) return false;
  if (before.train.steps > 0 || after.train.steps > 0)
    return before.train.steps > 0 && after.train.steps > before.train.steps;
  return after.train.epochs > before.train.epochs;
}

bool is_of_job(const Json& summary, const job::Job& job) {
  const Result<std::string> of = json_get<std::string>(summary, "job_sha256");
  return !of.ok() || *of == job::job_sha256(job);
}

// The new job.toml is what turns the run: before it the summary is that of the job, after it it is not.
Task<Status> extend_run(Runtime& rt, std::string folder, const job::Job& before, const job::Job& after) {
  const std::string summary = folder + "/summary.json", text = job::to_toml(after);
  TR_CO_RETURN_IF_ERROR(co_await rewrite(rt, summary, "job_sha256", job::job_sha256(before)));
  TR_CO_RETURN_IF_ERROR(co_await rewrite(rt, folder + "/plan.json", "job_sha256", job::job_sha256(after)));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().write_atomic(folder + "/job.toml", as_bytes(text)));
  co_return co_await rt.files().remove_all(summary);
}

}  // namespace trireme::record
