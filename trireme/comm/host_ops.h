// Collectives as nodes of a graph: host ops (exec/host_op.h) over a Group.
//
// A node's message identity is (its slot attribute, the step set here). A host op suspends only its
// dependents, so several run at once. Not thread-safe: loop only.
#pragma once

#include <memory>

#include "trireme/comm/group.h"
#include "trireme/exec/host_op.h"

namespace trireme::comm {

class GroupHostOps {
 public:
  virtual ~GroupHostOps() = default;
  // The step that the next run of the graph belongs to. Set between runs.
  virtual void set_step(std::uint32_t step) = 0;
  // For ExecutionOptions::host_ops: "allreduce", "broadcast". Valid as long as this object.
  virtual exec::HostOps table() = 0;
};

// The group outlives it.
std::unique_ptr<GroupHostOps> make_host_ops(Group& group);

}  // namespace trireme::comm
