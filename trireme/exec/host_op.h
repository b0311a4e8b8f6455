// HostOp: how ops without kernels (op/comm, op/resource) are carried out. comm and io implement it, the
// trainer injects.
#pragma once

#include <map>
#include <span>
#include <string>

#include "trireme/graph/graph.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::exec {

class HostOp {
 public:
  virtual ~HostOp() = default;
  // Starts the op on the loop; the task may end later, out of order, or with an error. Tensors stay valid
  // until it ends.
  virtual runtime::Task<Status> start(const graph::Node& node, std::span<const Tensor> inputs,
                                      std::span<const Tensor> outputs) = 0;
};

using HostOps = std::map<std::string, HostOp*>;  // by op name; not owned

}  // namespace trireme::exec
