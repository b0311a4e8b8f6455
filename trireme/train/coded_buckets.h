// What of a job's buckets travels encoded, how, and what that costs: written to its plan before step 1.
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/train/job.h"
#include "trireme/train/prepare.h"

namespace trireme::train {

// What of a bucket's vectors codecs take; statistics and metrics travel as they are.
codec::Packing packing_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                          std::int64_t least_elems);

// Parameters that take at most half of their values as two thin matrices.
std::vector<agree::Matrix> matrices_of(const plan::Bucket& bucket,
                                       const std::vector<model::Parameter>& parameters,
                                       const agree::RuleOptions& options);

// Lock step with a codec: notes in the buckets of a fresh plan how long their messages are, and in the plan
// how they are summed: as the job says, or by what costs less.
Status code_buckets(const Job& job, const std::vector<model::Parameter>& parameters, const cost::Rates& rates,
                    plan::Plan& plan);

}  // namespace trireme::train
