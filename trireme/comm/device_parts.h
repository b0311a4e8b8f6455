// What the ways of a DeviceSum have in common: the memory of the shards, turns, meetings, kernels. Internal
// to comm.
#pragma once

#include <deque>

#include "trireme/comm/device_sum.h"
#include "trireme/comm/nccl/nccl.h"
#include "trireme/kernel/cuda/session.h"
#include "trireme/kernel/cuda/vector_sum.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

// The order in which vectors are added: of `count` leaves of the tree over num_leaves, from `first` on.
// Several maximal subtrees are joined from left to right.
std::vector<kernel::cuda::Addition> tree_additions(collective::LeafRun run, std::int32_t num_leaves);

// Where the vectors of a rank's shards are in its memory, in bytes.
struct ShardLayout {
  explicit ShardLayout(const std::vector<std::int64_t>& vector_elems);
  std::size_t at(std::size_t shard, std::size_t vector) const {
    return shard * shard_bytes + offsets[vector];
  }
  std::vector<std::size_t> offsets;
  std::size_t shard_bytes = 0;
};

class DeviceSumBase : public DeviceSum {
 public:
  DeviceSumBase(runtime::Runtime& rt, Group& group, DeviceSumOptions options, Buffer memory);
  Tensor memory(std::size_t shard, std::size_t vector) const override;
  runtime::Task<Status> sum(DeviceCall call) override;
  runtime::Task<Status> close() override { co_return Status(); }
  std::shared_ptr<void> keep_mapped() const override { return std::make_shared<Buffer>(memory_); }

 protected:
  virtual runtime::Task<Status> sum_now(const DeviceCall& call) = 0;
  kernel::cuda::CudaDevice& gpu() const { return *kernel::cuda::as_cuda(options_.device.get()); }
  collective::LeafRun own_run() const { return options_.leaf_runs[static_cast<std::size_t>(group_.rank())]; }
  // Everybody has come to this call.
  runtime::Task<Status> meet(const DeviceCall& call, std::uint16_t slot, const char* what);
  // Runs the kernel over part of a vector and waits for it, on the pool.
  runtime::Task<Status> add(const kernel::cuda::VectorSum& sum, std::vector<const float*> inputs,
                            std::vector<float*> outputs, Chunk part);

  runtime::Runtime& rt_;
  Group& group_;
  const DeviceSumOptions options_;
  const ShardLayout layout_;
  kernel::cuda::Session session_;

 private:
  const Buffer memory_;  // of this rank's shards
  std::deque<runtime::OneShot<bool>*> waiting_;
  bool busy_ = false;
};

// What went wrong on this rank, agreed on by all: ok where it went right everywhere. `step` of the setup
// slot.
runtime::Task<Status> agree_on(Group& group, const DeviceSumOptions& options, std::uint32_t step, Status own);

runtime::Task<Result<std::unique_ptr<DeviceSum>>> make_nccl_sum(runtime::Runtime& rt, Group& group,
                                                                const DeviceSumOptions& options);

}  // namespace trireme::comm
