// Collectives and messages as nodes of a graph: host ops (exec/host_op.h) for op/comm, over a group and over
// those of its ranks that lie along an axis of a mesh.
//
// A node's message identity is (its slot attribute, the run's number, its iteration): docs/decisions/011. A
// host op suspends only its dependents, so several run at once. Pieces that do not lie one behind the other
// are packed in memory that is kept for later runs. Not thread-safe: loop only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/comm/device/axis_exchange.h"
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

// Over a group, which outlives it, and for nodes along an axis over the group that `axes` has for it: ranks,
// roots and peers of such nodes are those of that group. An axis that is not there is refused. Runs are
// numbered step * num_shards + shard (RunOptions::number, the same on every rank of the group); of the same
// shard they follow each other. A call that is cancelled before it has ended fails the group with this rank
// as the culprit: the others wait for what it will never do. `on_device`: for nodes along an axis, in graphs
// for a GPU, what exchanges their operands there; a group of that axis is in `axes`.
std::unique_ptr<HostOpTable> make_host_ops(Group& group, std::uint32_t num_shards = 1,
                                           std::map<std::string, Group*> axes = {},
                                           std::map<std::string, AxisExchange*> on_device = {});

// For a rank that runs a graph once more by itself, to look at its values: sums and broadcasts give what the
// rank itself brings, gathers that in every place, and received tensors are all ones. `places`: those of the
// rank along the axes.
std::unique_ptr<HostOpTable> make_lone_host_ops(int rank, std::map<std::string, int> places = {});

}  // namespace trireme::comm
