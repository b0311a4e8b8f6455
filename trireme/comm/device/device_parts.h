// What the ways of a DeviceSum have in common: the memory of the shards, turns, meetings, kernels. Internal
// to comm.
#pragma once

#include <deque>

#include "trireme/comm/device/mapped_memory.h"
#include "trireme/comm/device/message_coder.h"
#include "trireme/comm/nccl/nccl.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

// The order in which vectors are added: of `count` leaves of the tree over num_leaves, from `first` on.
// Several maximal subtrees are joined from left to right.
std::vector<kernel::cuda::Addition> tree_additions(collective::LeafRun run, std::int32_t num_leaves);

// Where the vectors of a rank's shards are in its memory, in bytes; and their messages, where others read
// them there.
struct ShardLayout {
  static Result<ShardLayout> make(const DeviceSumOptions& options, bool with_messages);
  std::size_t at(std::size_t shard, std::size_t vector) const {
    return shard * shard_bytes + offsets[vector];
  }
  std::size_t message_at(std::size_t shard, std::size_t vector) const {
    return shard * shard_bytes + messages[vector];
  }
  std::vector<std::size_t> offsets, messages;
  std::size_t shard_bytes = 0;
};

// What a rank has before any method is tried.
struct OwnParts {
  Buffer memory;
  ShardLayout layout;
  std::unique_ptr<DeviceCoder> coder;  // null without a codec
};

class DeviceSumBase : public DeviceSum {
 public:
  DeviceSumBase(runtime::Runtime& rt, Group& group, DeviceSumOptions options, OwnParts own);
  Tensor memory(std::size_t shard, std::size_t vector) const override;
  runtime::Task<Status> sum(DeviceCall call) override;
  runtime::Task<Status> close() override { co_return Status(); }
  std::shared_ptr<void> keep_mapped() const override { return std::make_shared<Buffer>(own_.memory); }
  std::vector<std::pair<std::string, Tensor>> state() const override {
    return own_.coder != nullptr ? own_.coder->state() : std::vector<std::pair<std::string, Tensor>>();
  }
  const SumStats* coding() const override { return own_.coder != nullptr ? &own_.coder->stats : nullptr; }

 protected:
  using Messages = std::vector<const std::byte*>;  // of all shards
  virtual runtime::Task<Status> sum_now(const DeviceCall& call) = 0;
  // The same of a step that encodes: encode, trade, decode, let go.
  virtual runtime::Task<Status> sum_coded(const DeviceCall& call);
  // Where the message of an own shard is made.
  virtual std::byte* message_at(std::size_t shard, std::size_t vector) = 0;
  virtual runtime::Task<Result<Messages>> trade(const DeviceCall& call) = 0;
  virtual runtime::Task<Status> let_go(const DeviceCall& call) = 0;  // nobody reads own messages any more
  kernel::cuda::CudaDevice& gpu() const { return *kernel::cuda::as_cuda(options_.device.get()); }
  collective::LeafRun own_run() const { return options_.leaf_runs[static_cast<std::size_t>(group_.rank())]; }
  // Everybody has come to this call.
  runtime::Task<Status> meet(const DeviceCall& call, std::uint16_t slot, const char* what);
  // Runs the kernel over part of a vector and waits for it, on the pool.
  runtime::Task<Status> add(const kernel::cuda::VectorSum& sum, std::vector<const float*> inputs,
                            std::vector<float*> outputs, Chunk part);
  float* values(std::size_t shard, std::size_t vector) const {
    return reinterpret_cast<float*>(own_.memory.data() + own_.layout.at(shard, vector));
  }
  // Own shards' messages are there, and counted.
  runtime::Task<Status> encode(const DeviceCall& call);
  // Own shards' velocities gather their vectors.
  runtime::Task<Status> watch(const DeviceCall& call);
  runtime::Task<Status> decode(const DeviceCall& call, Messages messages);

  runtime::Runtime& rt_;
  Group& group_;
  const DeviceSumOptions options_;
  const OwnParts own_;
  std::vector<std::size_t> lengths_;  // of own messages
  const std::unique_ptr<kernel::cuda::KernelStream> owned_stream_;
  kernel::cuda::KernelStream& stream_;  // on owned_stream_

 private:
  std::deque<runtime::OneShot<bool>*> waiting_;
  bool busy_ = false;
};

runtime::Task<Result<std::unique_ptr<DeviceSum>>> make_nccl_sum(runtime::Runtime& rt, Group& group,
                                                                const DeviceSumOptions& options);
runtime::Task<Result<std::unique_ptr<DeviceSum>>> make_staged_sum(runtime::Runtime& rt, Group& group,
                                                                  const DeviceSumOptions& options);

}  // namespace trireme::comm
