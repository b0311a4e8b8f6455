// Small jobs and their data for tests of whole training runs.
#pragma once

#include <memory>
#include <string>

#include "trireme/data/dataset.h"
#include "trireme/start/in_process.h"
#include "trireme/start/simulate.h"

namespace trireme::train::testing {

// The first digits, drawn once per call.
std::shared_ptr<const data::Dataset> few_digits(std::int64_t num_train, std::int64_t num_test);

// `steps` steps of batches of 30 samples in 6 logical shards.
job::Job small_job(std::string model, std::int64_t steps, int workers);

// The hash of the trained parameters, "" (and a test failure) when a rank failed.
std::string hash_in_process(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                            const std::string& run_dir = "");
std::string hash_virtual(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                         std::uint64_t seed = 1);

}  // namespace trireme::train::testing
