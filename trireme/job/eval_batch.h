// How many samples an evaluation graph takes at once: the same wherever a job's model is evaluated, since the
// order in which losses are added up depends on it.
#pragma once

#include <algorithm>

#include "trireme/job/job.h"

namespace trireme::job {

inline constexpr std::int64_t kMaxEvalBatch = 200;

inline std::int64_t eval_batch_of(const Job& job) {
  return std::min(kMaxEvalBatch, std::max<std::int64_t>(1, job.train.batch));
}

}  // namespace trireme::job
