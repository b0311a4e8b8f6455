#include "trireme/cli/load_data.h"

#include "trireme/cli/job_source.h"
#include "trireme/data/source.h"

namespace trireme::cli {

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> load_dataset(runtime::Runtime& rt,
                                                                         const train::Job& job) {
  data::DataSpec spec;
  spec.kind = job.data.kind;
  spec.path = job.data.path;
  spec.seed = static_cast<std::uint64_t>(job.data.seed);
  spec.limit_train = job.data.limit_train;
  spec.limit_test = job.data.limit_test;
  spec.test = job.data.test;
  spec.shape = job.data.shape;
  spec.label = job.data.label;
  spec.header = job.data.header;
  spec.separator = job.data.separator;
  spec.classes = job.data.classes;
  spec.num_train = job.data.num_train;
  spec.num_test = job.data.num_test;
  spec.cache_dir = cache_dir();
  auto loaded = co_await data::make_dataset(rt, std::move(spec));
  if (loaded.ok() && ((*loaded)->label_kind != data::Labels::kClass || (*loaded)->num_test == 0))
    co_return error(Code::kInvalid,
                    "[data] {}: training needs labels and test samples; got {} labels and {} test samples",
                    (*loaded)->source, (*loaded)->labels.size(), (*loaded)->num_test);
  co_return loaded;
}

}  // namespace trireme::cli
