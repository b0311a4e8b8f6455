// What of a job's buckets travels encoded, how, and what that costs: written to its plan before step 1.
#pragma once

#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// What of a bucket's vectors codecs take; statistics travel as they are.
codec::Packing packing_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                          std::int64_t least_elems);
// The same of a tile of the plan: what others have too all of them encode alike.
codec::Packing packing_of_tile(const Prepared& prepared, const plan::Bucket& bucket,
                               std::int64_t least_elems);

// Parameters that take at most half of their values as two thin matrices.
std::vector<comm::Matrix> matrices_of(const plan::Bucket& bucket,
                                      const std::vector<model::Parameter>& parameters,
                                      const job::LowRankOptions& options);
// The same of a tile of the plan, whose pieces of matrices are matrices of their own. Which ones are worth it
// is decided by the first tile, for all of them.
std::vector<comm::Matrix> matrices_of_tile(const job::Job& job, const Prepared& prepared,
                                           const plan::Bucket& bucket);

// How the gradients of a bucket travel.
job::Sending sending_of(const plan::Bucket& bucket);

// What the encoders of a bucket are told, in a job whose gradients travel by `sending`.
codec::Coding bucket_coding(const job::Job& job, const job::Sending& sending, const plan::Bucket& bucket);

// How the messages of a bucket with a codec are summed in lock step: as the job says, or by what costs less.
void choose_sum(const job::Job& job, const plan::Plan& plan, plan::Bucket& bucket, const cost::Rates& rates);

// Whether the job's gradients are encoded where they are, on GPUs: in lock step, by a codec that has kernels,
// with all messages to everybody. `sum` is what the job asks for, or what the plan has.
bool codes_on_gpu(const job::Job& job, const job::Sending& sending, const std::string& sum);

// Notes in the buckets of a fresh plan how they travel (all by `sending`; where that is mixed, as they say)
// and how long their messages are, and how these are summed. `on_gpu`: the job computes there.
Status code_buckets(const job::Job& job, const job::Sending& sending,
                    const std::vector<model::Parameter>& parameters, const cost::Rates& rates, bool on_gpu,
                    plan::Plan& plan);

}  // namespace trireme::prepare
