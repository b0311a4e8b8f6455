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
  // What is wrong with a file is wrong wherever its path was given; in a job file the line helps to find it.
  const std::string place = at->second == "--set" ? "" : at->second + ": ";
  if (failure.code() != Code::kNotFound) return failure.with_prefix(place);
  return error(Code::kNotFound, "{}{}; set data.path to where the samples are (docs/how_to_own_data.md)",
               place, failure.message());
}

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> read_data(runtime::Runtime& rt,
                                                                      const train::Job& job) {
  data::DataSpec spec = train::data_spec(job, cache_dir());
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (!loaded.ok()) co_return with_place(job, loaded.status());
  if ((*loaded)->num_train == 0)
    co_return error(Code::kInvalid,
                    "[data] {}: no training samples are left; hold out less (data.test, data.validation)",
                    (*loaded)->source);
  co_return loaded;
}

// The job of the run that this one would resume; nothing: a new run begins.
runtime::Task<std::optional<train::Job>> job_to_resume(runtime::Runtime& rt, const train::Job& job,
                                                       std::string run_dir) {
  const std::string folder = co_await train::folder_to_resume(rt, job.name, run_dir, "runs");
  if (folder.empty()) co_return std::nullopt;
  const Result<Bytes> plan = co_await rt.files().read(folder + "/plan.json");
  const Result<Bytes> text = co_await rt.files().read(folder + "/job.toml");
  if (!plan.ok() || !text.ok()) co_return std::nullopt;
  Result<train::Job> before = train::parse_job(as_text(*text), folder + "/job.toml");
  if (!before.ok()) co_return std::nullopt;
  co_return std::move(*before);
}

}  // namespace

runtime::Task<Result<LoadedData>> load_dataset(runtime::Runtime& rt, train::Job& job, bool settled,
                                               std::string run_dir) {
  LoadedData out;
  const std::optional<std::string> pixels = job.data.pixels;
  TR_CO_ASSIGN_OR_RETURN(out.set, co_await read_data(rt, job));
  if (!settled) {
    const train::Job asked = job;
    out.notes = train::settle_job(job, *out.set);
    const std::optional<train::Job> before = co_await job_to_resume(rt, job, run_dir);
    if (before && train::keep_as_begun(job, asked, *before)) out.notes.clear();
    TR_CO_RETURN_IF_ERROR(train::check_job(job));
    if (job.data.pixels != pixels) {
      TR_CO_ASSIGN_OR_RETURN(out.set, co_await read_data(rt, job));
    }
  }
  out.notes.insert(out.notes.end(), out.set->notes.begin(), out.set->notes.end());
  const auto input = train::model_input(job, *out.set);
  if (!input.ok()) co_return input.status();
  co_return out;
}

void print_notes(const LoadedData& data) {
  for (const std::string& note : data.notes) print_note(note);
}

}  // namespace trireme::cli
