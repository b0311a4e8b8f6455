#include "trireme/cli/load_data.h"

#include "trireme/cli/job_source.h"
#include "trireme/cli/predict_model.h"
#include "trireme/train/job_parts.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/settle_job.h"

namespace trireme::cli {
namespace {

// Where the path was given, and what to do when nothing is there.
Status with_place(const train::Job& job, const Status& failure) {
  const auto at = job.given_at.find("data.path");
  if (at == job.given_at.end()) return failure;
  if (failure.code() != Code::kNotFound) return failure.with_prefix(at->second + ": ");
  return error(Code::kNotFound, "{}: {}; set data.path to where the samples are (docs/how_to_own_data.md)",
               at->second, failure.message());
}

}  // namespace

runtime::Task<Result<LoadedData>> load_dataset(runtime::Runtime& rt, train::Job& job, bool settled) {
  LoadedData out;
  data::DataSpec spec = train::data_spec(job, cache_dir());
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (!loaded.ok()) co_return with_place(job, loaded.status());
  out.set = std::move(*loaded);
  if (out.set->num_train == 0)
    co_return error(Code::kInvalid,
                    "[data] {}: no training samples are left; hold out less (data.test, data.validation)",
                    out.set->source);
  if (!settled) {
    out.notes = train::settle_job(job, *out.set);
    TR_CO_RETURN_IF_ERROR(train::check_job(job));
  }
  out.notes.insert(out.notes.end(), out.set->notes.begin(), out.set->notes.end());
  const auto input = train::model_input(job, *out.set);
  if (!input.ok()) co_return input.status();
  co_return out;
}

void print_notes(const LoadedData& data) {
  for (const std::string& note : data.notes) print_note(note);
}

runtime::Task<void> keep_as_resumed(runtime::Runtime& rt, train::Job& job, std::string run_dir) {
  if (job.picked.empty()) co_return;
  const std::string folder = co_await train::folder_to_resume(rt, job.name, run_dir, "runs");
  if (folder.empty()) co_return;
  const Result<Bytes> plan = co_await rt.files().read(folder + "/plan.json");
  const Result<Bytes> text = co_await rt.files().read(folder + "/job.toml");
  if (!plan.ok() || !text.ok()) co_return;
  const Result<train::Job> before = train::parse_job(as_text(*text), folder + "/job.toml");
  if (before.ok()) train::keep_picked(job, *before);
}

}  // namespace trireme::cli
