// How a job would be planned on this host, or on hosts joined by parallel.link: for commands that plan and do
// not train.
#pragma once

#include "trireme/prepare/prepare.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/read_rates.h"

namespace trireme::cli {

// What lies between the ranks of a job on this host, or between hosts.
start::RateSource rate_source(const job::Job& job);
// Runs `rt` to read the calibration.
prepare::PrepareOptions plan_options(runtime::RealRuntime& rt, const job::Job& job);
// The same on a machine of other rates.
prepare::PrepareOptions plan_options(const job::Job& job, const cost::Rates& rates);

}  // namespace trireme::cli
