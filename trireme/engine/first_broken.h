// Which tensor of a graph is the first that holds an infinity or NaN.
#pragma once

#include <string>

#include "trireme/comm/group.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/io/safetensors.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {

// Whether every element of a float tensor is finite; true for other dtypes.
bool all_finite(const Tensor& tensor);
// The name of the first tensor that is not, looked for on the compute pool; empty: all are.
runtime::Task<std::string> find_not_finite(runtime::Runtime& rt, io::NamedTensors tensors);
// The same of what ranks hold. Where all hold the same rank 0 looks, for itself alone; otherwise every rank
// looks at what it is the first to hold, and all get the same answer. `step` names the messages.
runtime::Task<Result<std::string>> find_not_finite(runtime::Runtime& rt, comm::Group& group,
                                                   const HeldState& holding, std::int64_t step);

// How a graph is run once more.
struct RunAgain {
  // Where the graph was made to run; null: the host. What suits a GPU takes a host minutes.
  std::shared_ptr<Device> device = nullptr;
  exec::HostOps host_ops = {};  // for those of the graph; only this rank runs it again
  int tile = 0;                 // position along the model axis
};

// Runs once more what the output `loss` of `graph` is made of (all of a graph that has none), on the same
// variables and batch, keeping every value, and names the first one, in the order of computation, that is not
// finite: "'fc1/matmul' (matmul), though what it reads is finite" or "variable 'fc1/weight', ...". Empty:
// none is.
runtime::Task<Result<std::string>> find_first_broken(runtime::Runtime& rt, graph::Graph graph,
                                                     exec::Variables& variables,
                                                     const model::ModelInput& input,
                                                     const prepare::BatchTensors& batch, RunAgain how);

}  // namespace trireme::engine
