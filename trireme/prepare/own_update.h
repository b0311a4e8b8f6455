// The optimiser's step for a worker's own part of a bucket: workers of one host that share their weights
// divide the work, and replicas under parallel.zero the state; each changes only what is its own
// (comm::chunk_of).
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// A part of one parameter.
struct ParameterSlice {
  const model::Parameter* parameter = nullptr;
  std::int64_t in_bucket = 0;     // where it begins in the bucket, in elements
  std::int64_t in_parameter = 0;  // where it begins in the parameter, in elements
  std::int64_t count = 0;
  TensorType type() const { return {DType::kF32, {count}}; }
};

// What lies in `chunk` of the trained parameters of a bucket.
Result<std::vector<ParameterSlice>> slices_of(const plan::Bucket& bucket,
                                              const std::vector<model::Parameter>& parameters,
                                              comm::Chunk chunk);

using plan::parameter_elems;

// What of them belongs to a replica where the replicas of a plan divide them (Plan::zero_level).
comm::Chunk own_part(const plan::Plan& plan, const plan::Bucket& bucket, int replica);

// As Prepared::updates, over vectors: "<parameter>" and its states are slices. Null: there is nothing to do.
Result<Compiled> compile_own_update(const job::Job& job, const Prepared& prepared,
                                    const std::vector<ParameterSlice>& slices);

// Where the states of the optimiser are in one vector, in elements, and how long it is.
struct StateLayout {
  std::vector<std::int64_t> offsets;
  std::int64_t num_elems = 0;
};
StateLayout state_layout(const std::vector<model::StateVariable>& states);

}  // namespace trireme::prepare
