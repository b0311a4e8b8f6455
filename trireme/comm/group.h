// Group: ranks that run collectives together over one Transport, fail together, and never hang.
//
// The first failure (closed connection, mismatch, silence, verdict of another rank) poisons the group:
// outstanding work is cancelled and drained, and every operation, running or later, ends with the one error
// that names the culprit, the operation and the reason. World size and rank are asked of the group, never
// cached.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/net/membership.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

// One collective call. All ranks give the same values except the memory. Calls may overlap; a pair (slot,
// step) names one call and is not used again while it runs. Slot 65535 is the group's own. Fault point:
// {"collective", n} is consulted at the n-th call of this rank, counted from 1 (leave() is not counted).
struct Call {
  std::uint32_t step = 0;
  std::uint16_t slot = 0;                      // numbered by the plan
  std::string label;                           // for errors: "bucket 0"
  std::string algorithm;                       // "ring", "fixed-tree"; empty: the cheapest
  std::vector<collective::LeafRun> leaf_runs;  // fixed-tree: one per rank
  std::int32_t num_leaves = 0;
  int root = 0;
};

struct GroupOptions {
  std::uint16_t id = 0;
  std::uint32_t epoch = 1;
  net::MembershipOptions membership;
  cost::LinkModel link;  // for selection
  cost::MachineModel machine;
};

struct GroupStats {
  std::uint64_t operations = 0;
  std::uint64_t bytes_sent = 0;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;

  // Sum over ranks, f32, in place: `data` is this rank's input and the result everywhere.
  virtual runtime::Task<Status> allreduce(Call call, Tensor data) = 0;
  // Sum in the order of the fixed tree over logical shards: `partials` are this rank's maximal subtrees, left
  // to right (collective::maximal_subtrees of its leaf run); `result` receives the sum. partials[0] may be
  // `result` itself. The partials' contents are undefined afterwards.
  virtual runtime::Task<Status> allreduce_tree(Call call, std::span<const Tensor> partials,
                                               Tensor result) = 0;
  virtual runtime::Task<Status> broadcast(Call call, Tensor data) = 0;
  virtual runtime::Task<Status> barrier(Call call) = 0;

  // Orderly end: barrier, goodbye. After a failure: drains and returns the verdict.
  virtual runtime::Task<Status> leave() = 0;
  // Poisons the group because this rank itself failed (e.g. its disk): the others get this rank as the
  // culprit.
  virtual void fail(std::string operation, std::string reason) = 0;
  virtual const Status& verdict() const = 0;
  virtual GroupStats stats() const = 0;
};

// Takes the transport. The membership runs from here on.
Result<std::unique_ptr<Group>> make_group(runtime::Runtime& rt, std::unique_ptr<net::Transport> transport,
                                          GroupOptions options);

}  // namespace trireme::comm
