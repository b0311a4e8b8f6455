#include "trireme/start/load_data.h"

#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/job/settle_job.h"
#include "trireme/parallel/pipeline/timetable.h"
#include "trireme/parallel/segment/layer_list.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/tiles.h"
#include "trireme/record/run_folder.h"

namespace trireme::start {
namespace {

// Where the path was given, and what to do when nothing is there.
Status with_place(const job::Job& job, const Status& failure) {
  const auto at = job.given_at.find("data.path");
  if (at == job.given_at.end()) return failure;
  // What is wrong with a file is wrong wherever its path was given; in a job file the line helps to find it.
  const std::string place = at->second == "--set" ? "" : at->second + ": ";
  if (failure.code() != Code::kNotFound) return failure.with_prefix(place);
  return error(Code::kNotFound, "{}{}; set data.path to where the samples are (docs/how_to_own_data.md)",
               place, failure.message());
}

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> read_data(runtime::Runtime& rt,
                                                                      const job::Job& job,
                                                                      std::string cache_dir) {
  data::DataSpec spec = job::data_spec(job, std::move(cache_dir));
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (!loaded.ok()) co_return with_place(job, loaded.status());
  if ((*loaded)->num_train == 0)
    co_return error(Code::kInvalid,
                    "[data] {}: no training samples are left; hold out less (data.test, data.validation)",
                    (*loaded)->source);
  co_return loaded;
}

// A run that the job would resume goes on as it was settled (job::keep_as_begun). True: the job changed.
runtime::Task<bool> keep_as_begun(runtime::Runtime& rt, job::Job& job, const job::Job& asked,
                                  std::string run_dir) {
  const std::vector<std::string> folders =
      co_await record::folders_to_resume(rt, job.name, std::move(run_dir), "runs");
  for (const std::string& folder : folders) {
    const Result<Bytes> plan = co_await rt.files().read(folder + "/plan.json");
    const Result<Bytes> text = co_await rt.files().read(folder + "/job.toml");
    if (!plan.ok() || !text.ok()) continue;
    const Result<job::Job> before = job::parse_job(as_text(*text), folder + "/job.toml");
    if (!before.ok()) continue;
    if (job::diff_jobs(*before, job).empty()) co_return false;
    if (job::keep_as_begun(job, asked, *before)) co_return true;
  }
  co_return false;
}

// Layers enough for the segments, and those that parallel.stage_cuts names; numbers that the timetable takes.
Status check_depth(const job::Job& job, const model::ModelInput& input) {
  const std::int32_t segments = job::segments_of(job);
  if (segments == 1) return {};
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, input, 1));
  const parallel::LayerList list = parallel::layers_of(model.train);
  if (const auto& asked = job.parallel.stage_cuts; asked && !asked->empty())
    TR_RETURN_IF_ERROR(parallel::named_cuts(model.train, list, *asked).status());
  TR_RETURN_IF_ERROR(parallel::balanced_cuts(list, segments).status());
  if (job::stages_of(job) == 1) return {};
  return parallel::check_timetable(
      {.kind = job.options.text(job::kPipeline),
       .stages = job::stages_of(job),
       .virtual_stages = static_cast<int>(job.options.integer(job::kVirtualStages)),
       .micro_batches = static_cast<int>(job::micro_batches_of(job))});
}

}  // namespace

runtime::Task<Result<LoadedData>> load_dataset(runtime::Runtime& rt, job::Job& job, LoadSpec spec) {
  LoadedData out;
  const OptionValues options = job.data.options;
  TR_CO_ASSIGN_OR_RETURN(out.set, co_await read_data(rt, job, spec.cache_dir));
  if (!spec.settled) {
    const job::Job asked = job;
    out.notes = job::settle_job(job, *out.set);
    const bool kept = co_await keep_as_begun(rt, job, asked, spec.run_dir);
    if (kept) out.notes.clear();
    TR_CO_RETURN_IF_ERROR(job::check_job(job));
    if (job.data.options != options) {
      TR_CO_ASSIGN_OR_RETURN(out.set, co_await read_data(rt, job, spec.cache_dir));
    }
  }
  out.notes.insert(out.notes.end(), out.set->notes.begin(), out.set->notes.end());
  const auto input = job::model_input(job, *out.set);
  if (!input.ok()) co_return input.status();
  co_return out;
}

runtime::Task<prepare::StoredPlan> stored_plan(runtime::Runtime& rt, const job::Job& job,
                                               std::string run_dir) {
  const std::vector<std::string> folders =
      co_await record::folders_to_resume(rt, job.name, std::move(run_dir), "runs");
  for (const std::string& folder : folders) {
    const Result<Bytes> bytes = co_await rt.files().read(folder + "/plan.json");
    if (!bytes.ok()) continue;
    const Result<Json> json = parse_json(as_text(*bytes), folder + "/plan.json");
    if (!json.ok()) continue;
    Result<plan::Plan> plan = plan::plan_from_json(*json);
    if (plan.ok() && plan->job_sha256 == job::job_sha256(job))
      co_return std::make_shared<const plan::Plan>(std::move(*plan));
  }
  co_return nullptr;
}

Status check_cut(const job::Job& job, const data::Dataset& data, const prepare::StoredPlan& stored) {
  if (job::tiles_of(job) == 1 && job::segments_of(job) == 1) return {};
  TR_ASSIGN_OR_RETURN(const model::ModelInput input, job::model_input(job, data));
  TR_RETURN_IF_ERROR(check_depth(job, input));
  if (job::tiles_of(job) > 1) TR_RETURN_IF_ERROR(prepare::check_tiling(job, input));
  // Which stages read a parameter is known when the graphs are cut.
  if (job::overlaps_steps(job)) TR_RETURN_IF_ERROR(prepare::estimate_memory(job, input, 1, stored).status());
  return prepare::check_stage_memory(job, input, stored);
}

}  // namespace trireme::start
