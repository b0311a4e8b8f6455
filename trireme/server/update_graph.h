// Running an update's graph at a server: memory for its states, and what it may read.
#pragma once

#include "trireme/server/stored_slice.h"

namespace trireme::server {

// Inputs beside gradients that a server gives: "lr" (f32), "step" (i64), both scalars.
struct UpdateScalars {
  Tensor learning_rate, step;
  void set(float rate, std::int64_t count) const;  // does nothing to phantoms
};
Result<UpdateScalars> make_update_scalars(Device& device);

// kInvalid names the first input that is neither a gradient of `parts` nor one of the scalars.
Status check_update_inputs(const graph::Graph& graph, std::span<const StoredPart> parts);

// States are made in `variables`, which has the parts; the scalars are fed, gradients are not yet.
Result<std::unique_ptr<exec::Execution>> make_update_execution(runtime::Runtime& rt, const UpdateSpec& spec,
                                                               std::span<const StoredPart> parts,
                                                               exec::Variables& variables,
                                                               const UpdateScalars& scalars);

}  // namespace trireme::server
