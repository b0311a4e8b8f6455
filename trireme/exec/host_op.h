// HostOp: how ops without kernels (op/comm, op/resource) are carried out. comm and io implement it, the
// trainer injects.
#pragma once

#include <map>
#include <span>
#include <string>

#include "trireme/graph/graph.h"
#include "trireme/runtime/sync.h"
#include "trireme/tensor/tensor.h"

namespace trireme::exec {

// One call of a host op: a node in one run. The node and the tensors stay valid until the call has ended.
struct HostCall {
  const graph::Node& node;
  std::span<const Tensor> inputs, outputs;
  std::uint64_t run = 0;        // RunOptions::number
  std::uint64_t iteration = 0;  // of the loop whose body holds the node; 0: the node is in no loop
  TimeNs deadline = kForever;   // RunOptions::deadline; the executor itself cancels what lasts longer
  runtime::CancelToken cancel;  // cancelled when the run fails, is cancelled or is abandoned
};

class HostOp {
 public:
  virtual ~HostOp() = default;
  // Starts the op on the loop; the task may end later, out of order, or with an error. A call whose token is
  // cancelled ends soon, with any status: the run waits for it. Once it has ended nothing touches its
  // tensors.
  virtual runtime::Task<Status> start(HostCall call) = 0;
  // In a graph for a GPU: whether a call of this node takes operands that lie there, written by work that has
  // ended, and ends when its own work there has. Others get copies on the host.
  virtual bool takes_device(const graph::Node& /*node*/) const { return false; }
};

using HostOps = std::map<std::string, HostOp*>;  // by op name; not owned

}  // namespace trireme::exec
