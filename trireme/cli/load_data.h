// The data set a job names.
#pragma once

#include <memory>

#include "trireme/data/dataset.h"
#include "trireme/train/job.h"

namespace trireme::cli {

runtime::Task<Result<std::shared_ptr<const data::Dataset>>> load_dataset(runtime::Runtime& rt,
                                                                         const train::Job& job);

}  // namespace trireme::cli
