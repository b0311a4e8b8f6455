#include "trireme/cli/load_data.h"

#include "trireme/cli/job_source.h"
#include "trireme/train/job_parts.h"

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

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> load_dataset(runtime::Runtime& rt,
                                                                         const train::Job& job) {
  data::DataSpec spec = train::data_spec(job, cache_dir());
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (!loaded.ok()) co_return with_place(job, loaded.status());
  if ((*loaded)->num_train == 0)
    co_return error(Code::kInvalid,
                    "[data] {}: no training samples are left; hold out less (data.test, data.validation)",
                    (*loaded)->source);
  const auto input = train::model_input(job, **loaded);
  if (!input.ok()) co_return input.status();
  co_return loaded;
}

}  // namespace trireme::cli
