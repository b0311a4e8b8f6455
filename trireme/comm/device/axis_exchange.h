// AxisExchange: collectives of graphs along an axis of the mesh whose operands lie in the memory of GPUs.
//
// Every node has a part of a rank's outbox (deal.h); portions go by a *method*:
//   mapped  ranks of one host that see each other's GPU memory, as one process or by CUDA IPC. All meet,
//           every rank reads its portions where they are, all meet again. Nothing passes through the host.
//   nccl    ranks with a GPU each: all meet, then NCCL sends the portions.
// Sums are made here, along the fixed tree over the ranks: the bits of the host's, by either method. What is
// not taken (messages between two ranks, sums of other types than f32) passes through the host.
//
// On the loop of one Runtime. Calls may overlap and begin in any order. A failure poisons the group.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/exec/host_op.h"

namespace trireme::comm {

struct AxisExchangeOptions {
  std::shared_ptr<Device> device;  // this rank's GPU
  std::string method = "auto";     // auto, mapped, nccl
  std::string axis;
  bool one_host = false, one_process = false;
  std::vector<const graph::Graph*> graphs;  // with the nodes that it is for, the same ones on every rank
  // Runs of the same number modulo this follow each other.
  int runs_at_once = 1;
  TimeNs deadline = 2 * kSecond;  // of a call of NCCL that all ranks have come to
  std::uint16_t setup_slot = 0;   // for calls of the group while methods are tried; steps count from 0
  std::string nccl_library = "libnccl.so.2";
};

class AxisExchange {
 public:
  virtual ~AxisExchange() = default;
  virtual std::string_view method() const = 0;
  virtual bool takes(const graph::Node& node) const = 0;
  virtual double bytes_sent() const = 0;  // by this rank to others, by all calls so far
  // Operands on the GPU, written by work that has ended. `call` has step, slot and label of the node.
  virtual runtime::Task<Status> run(Call call, const exec::HostCall& host) = 0;
  // Orderly end, by all ranks, after the last call. What others have mapped stays as long as what
  // keep_mapped() returns: until everybody has left the group.
  virtual runtime::Task<Status> close() = 0;
  virtual std::shared_ptr<void> keep_mapped() const = 0;
};

// Every rank of the axis calls it. Null: no method can be had, and why was logged; operands must pass through
// the host. A method that was asked for by name and cannot be had is an error on all ranks.
runtime::Task<Result<std::unique_ptr<AxisExchange>>> make_axis_exchange(runtime::Runtime& rt, Group& group,
                                                                        AxisExchangeOptions options);

}  // namespace trireme::comm
