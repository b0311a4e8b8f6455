// Learning-rate schedules over globally completed samples, never over a worker's own step count.
#pragma once

#include <cstdint>

#include "trireme/train/job.h"

namespace trireme::train {

// Rate for the step that begins after `done` of `total` samples: linear warm-up over the first `warmup` share
// of the run, then constant, or half a cosine down to zero (Loshchilov and Hutter 2017, eq. 5, without
// restarts).
double learning_rate(const Job::Optimizer& optimizer, std::int64_t done, std::int64_t total);

}  // namespace trireme::train
