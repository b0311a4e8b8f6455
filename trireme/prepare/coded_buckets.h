// What of a job's buckets travels encoded, how, and what that costs: written to its plan before step 1.
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/job/job.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// What of a bucket's vectors codecs take; statistics and metrics travel as they are.
codec::Packing packing_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                          std::int64_t least_elems);

// Parameters that take at most half of their values as two thin matrices.
std::vector<agree::Matrix> matrices_of(const plan::Bucket& bucket,
                                       const std::vector<model::Parameter>& parameters,
                                       const agree::RuleOptions& options);

// What a bucket's exchange is told: the job's options with the bucket's own codec and reducer.
agree::RuleOptions bucket_options(const job::Job& job, const plan::Plan& plan, const plan::Bucket& bucket);

// How the messages of a bucket with a codec are summed in lock step: as the job says, or by what costs less.
void choose_reducer(const job::Job& job, const plan::Plan& plan, plan::Bucket& bucket,
                    const cost::Rates& rates);

// Whether the job's gradients are encoded where they are, on GPUs: in lock step, by a codec that has kernels,
// with all messages to everybody. `reducer` is the job's or the plan's.
bool codes_on_gpu(const job::Job& job, const std::string& reducer);

// Notes in the buckets of a fresh plan what they travel in (all in the job's codec; where it is plan::kMixed,
// as they say) and how long their messages are, and how these are summed. `on_gpu`: the job computes there.
Status code_buckets(const job::Job& job, const std::vector<model::Parameter>& parameters,
                    const cost::Rates& rates, bool on_gpu, plan::Plan& plan);

}  // namespace trireme::prepare
