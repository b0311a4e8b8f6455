#include "trireme/cli/load_data.h"

#include "trireme/cli/job_source.h"

namespace trireme::cli {

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> load_dataset(runtime::Runtime& rt,
                                                                         const train::Job& job) {
  data::DigitsOptions options;
  options.seed = static_cast<std::uint64_t>(job.data.seed);
  options.limit_train = job.data.limit_train;
  options.limit_test = job.data.limit_test;
  options.cache_dir = cache_dir();
  co_return co_await data::load_digits(rt, options);
}

}  // namespace trireme::cli
