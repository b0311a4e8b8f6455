// Collectives and messages as nodes of a graph: host ops (exec/host_op.h) for op/comm over one group. Nodes
// along an axis of a mesh are refused, all_to_all and halo_exchange are only described.
//
// A node's message identity is (its slot attribute, the run's number, its iteration): docs/decisions/011. A
// host op suspends only its dependents, so several run at once. Pieces that do not lie one behind the other
// are packed in memory that is kept for later runs. Not thread-safe: loop only.
#pragma once

#include <memory>
#include <string_view>

#include "trireme/comm/group.h"
#include "trireme/exec/host_op.h"

namespace trireme::comm {

// Whether the op of that name is carried out here. Other host ops are only described.
bool has_host_op(std::string_view op);

// Valid as long as what made it. Used in ExecutionOptions::host_ops.
class HostOpTable {
 public:
  virtual ~HostOpTable() = default;
  virtual exec::HostOps table() = 0;
};

// Over a group, which outlives it. Runs are numbered step * num_shards + shard (RunOptions::number, the same
// on every rank of the group); of the same shard they follow each other. A call that is cancelled before it
// has ended fails the group with this rank as the culprit: the others wait for what it will never do.
std::unique_ptr<HostOpTable> make_host_ops(Group& group, std::uint32_t num_shards = 1);

// For a rank that runs a graph once more by itself, to look at its values: sums and broadcasts give what the
// rank itself brings, gathers that in every place, and received tensors are all ones.
std::unique_ptr<HostOpTable> make_lone_host_ops(int rank);

}  // namespace trireme::comm
