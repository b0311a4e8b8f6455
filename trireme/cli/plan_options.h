// How a job would be planned on this host, or on hosts joined by parallel.link: for commands that plan and do
// not train.
#pragma once

#include "trireme/prepare/prepare.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {

// Runs `rt` to read the calibration.
prepare::PrepareOptions plan_options(runtime::RealRuntime& rt, const job::Job& job);
// The same on a machine of other rates.
prepare::PrepareOptions plan_options(const job::Job& job, const cost::Rates& rates);

}  // namespace trireme::cli
