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
#include "trireme/cost/comm_model.h"
#include "trireme/net/membership.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

class Mailbox;  // mailbox.h

// One collective call. All ranks give the same values except the memory. Calls may overlap; (slot, step,
// iteration) names one call and is not used again while it runs (docs/decisions/011). Slot 65535 is the
// group's own. Fault point: {"collective", n} is consulted at the n-th call of this rank, counted from 1
// (leave() is not counted).
struct Call {
  // The number of the run that the call belongs to: the training step, or step * num_shards + shard where
  // several shards of a step run at once. Calls of different shards may start in any order.
  std::uint32_t step = 0;
  std::uint32_t num_shards = 1;
  std::uint16_t iteration = 0;                 // of a loop, modulo 2^16: its iterations do not overlap
  std::uint16_t slot = 0;                      // numbered by the plan
  std::string label;                           // for errors: "bucket 0"
  std::string algorithm;                       // a row of collective/table.cc; empty: the cheapest
  std::vector<collective::LeafRun> leaf_runs;  // fixed-tree: one per rank
  std::int32_t num_leaves = 0;
  int root = 0;
  collective::Reduction reduction = collective::Reduction::kSum;
  // The v forms: elements per rank (gather, scatter, allgather, reduce-scatter) or per pair (all-to-all,
  // world x world, row r what rank r sends). None: blocks are an even cut; equal for gather and scatter.
  std::vector<std::int64_t> counts = {};
  std::vector<collective::Edge> edges = {};  // neighbours: of all ranks
  // Sums: this rank needs own_chunk() of the result only; the rest of `out` is undefined afterwards. Others
  // may read this rank's input until a later call that everybody makes after this one has ended.
  bool own_chunk = false;
  // Made long before others can make theirs. Where this rank has other calls under way, it waits in those,
  // as far as anybody asks who waits for whom.
  bool ahead = false;
};

// The part of `count` elements that belongs to a rank: whole cache lines, in rank order.
struct Chunk {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
Chunk chunk_of(std::int64_t count, std::int64_t elem_bytes, int rank, int world);

struct GroupOptions {
  std::uint16_t id = 0;
  std::uint32_t epoch = 1;
  net::MembershipOptions membership;
  cost::CommModel model;  // by which calls without an algorithm choose one: the same on every rank
  // The machine of each rank, the same on every rank, for hierarchical algorithms and prices. Empty: what the
  // transport knows of hosts, where there are several and some hold several ranks.
  std::vector<std::int32_t> machine_of = {};
  // How long a call in shared memory looks again before it leaves the loop to others. 0 where more ranks than
  // cores share a host.
  TimeNs spin_ns = 50 * kMicro;
};

struct GroupStats {
  std::uint64_t operations = 0;
  std::uint64_t bytes_sent = 0;
  // What the collectives of a sub-group brought of them, without headers. 0 of a whole group.
  std::uint64_t own_bytes = 0;
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Whether that rank is known to run on the host of this one.
  virtual bool same_host(int rank) const = 0;

  // All calls: every dtype (combine.h says how 16-bit floats are rounded and what is refused), contiguous
  // host tensors. A call starts when its task is awaited or handed to when_all; its completion is the task's
  // end, and any number may be under way at once. Tensors stay untouched by others until then.
  //
  // Reduction over ranks (call.reduction), in place: `data` is this rank's input and the result everywhere.
  virtual runtime::Task<Status> allreduce(Call call, Tensor data) = 0;
  virtual runtime::Task<Status> allreduce(Call call, Tensor in, Tensor out) = 0;
  // Sum in the order of the fixed tree over logical shards: `partials` are this rank's maximal subtrees, left
  // to right (collective::maximal_subtrees of its leaf run); `result` receives the sum. partials[0] may be
  // `result` itself. The partials' contents are undefined afterwards.
  virtual runtime::Task<Status> allreduce_tree(Call call, std::span<const Tensor> partials,
                                               Tensor result) = 0;
  // The result is at the root only; in place the others' data is undefined afterwards. `out` is the root's.
  virtual runtime::Task<Status> reduce(Call call, Tensor data) = 0;
  virtual runtime::Task<Status> reduce(Call call, Tensor in, Tensor out) = 0;
  virtual runtime::Task<Status> broadcast(Call call, Tensor data) = 0;
  // `all`: blocks in rank order, of the root (allgather: of everybody). In place: `block` null, and the block
  // of the root (allgather: of each rank) is in its place in `all`.
  virtual runtime::Task<Status> gather(Call call, Tensor block, Tensor all) = 0;
  virtual runtime::Task<Status> scatter(Call call, Tensor all, Tensor block) = 0;
  virtual runtime::Task<Status> allgather(Call call, Tensor block, Tensor all) = 0;
  // `block` receives this rank's block of the result, `data` stays. In place: `block` null, the block is in
  // its place in `data`, the rest of which is undefined afterwards.
  virtual runtime::Task<Status> reduce_scatter(Call call, Tensor data, Tensor block) = 0;
  // `in`: blocks by destination, `out`: blocks by source. They may be the same tensor.
  virtual runtime::Task<Status> all_to_all(Call call, Tensor in, Tensor out) = 0;
  // One tensor per edge of this rank, in the order of call.edges. The same tensor may go along several edges.
  virtual runtime::Task<Status> neighbours(Call call, std::span<const Tensor> out,
                                           std::span<const Tensor> in) = 0;
  virtual runtime::Task<Status> barrier(Call call) = 0;
  // One message between two ranks, which both make the call; nobody else does. A send may end before its
  // recv begins or only then. Both wait as collectives do: bounded by the membership, and a rank that waits
  // here is in a call, so it is not the one that is blamed.
  virtual runtime::Task<Status> send(Call call, int peer, Tensor data) = 0;
  virtual runtime::Task<Status> recv(Call call, int peer, Tensor data) = 0;

  // Host memory for tensors that collectives work on. Where ranks share memory, those that everybody
  // allocated here are added where they lie, without a copy; elsewhere it is ordinary memory. Each rank may
  // decide for itself. After a failure its contents are undefined and it is not used again.
  virtual Result<Tensor> allocate(const TensorType& type) = 0;

  // Memory of rank call.root that every rank sees, as it is (not cleared). Used until the root's tensor goes;
  // what is written there is seen by others without order. kUnavailable where ranks share no memory.
  virtual runtime::Task<Result<Tensor>> share(Call call, TensorType type) = 0;

  // A group of some of these ranks, in that order; all of them make it with the same `id`, which no other
  // group of these ranks has. It works beside this group and the others at the same time; it shares the
  // connection and the fate: a failure in one poisons all. leave() is a barrier among its members. It goes
  // before this group.
  virtual Result<std::unique_ptr<Group>> subgroup(std::vector<int> ranks, std::uint16_t id) = 0;

  // Letters between the ranks of this group, beside its collectives; made at the first call.
  virtual Mailbox& mailbox() = 0;
  // From now on these ranks may be lost without a verdict: collectives in which they take part fail for those
  // who call them, everything else goes on (mailbox.h). Every rank calls it with the same ranks; rank 0 is
  // never among them. leave() then waits for those that are still there.
  // Where the transport does not survive losses (mpi) nothing changes: all end together.
  virtual Status set_expendable(std::vector<int> ranks) = 0;

  // Orderly end: barrier, goodbye. After a failure: drains and returns the verdict. Later calls are refused.
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
