#include "trireme/cli/load_data.h"

#include "trireme/cli/job_source.h"
#include "trireme/train/job_parts.h"

namespace trireme::cli {

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> load_dataset(runtime::Runtime& rt,
                                                                         const train::Job& job) {
  data::DataSpec spec = train::data_spec(job, cache_dir());
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (!loaded.ok()) co_return loaded;
  if ((*loaded)->num_train == 0)
    co_return error(Code::kInvalid, "[data] {}: no training samples are left", (*loaded)->source);
  const auto input = train::model_input(job, **loaded);
  if (!input.ok()) co_return input.status();
  co_return loaded;
}

}  // namespace trireme::cli
