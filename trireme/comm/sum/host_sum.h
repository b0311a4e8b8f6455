// What sums of gradients in host memory have in common: a vector per shard of this worker, of which the first
// receives the sum. Internal to comm.
#pragma once

#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

class HostSum : public GradientSum {
 public:
  HostSum(runtime::Runtime& rt, Group& group, SumSpec spec)
      : rt_(rt), group_(group), spec_(std::move(spec)) {}

  // The first vector lies where other ranks of the host can read it, where the group has such memory.
  Status take_shards(collective::LeafRun run) override;
  Tensor memory(std::size_t place) const override { return vectors_[place]; }
  Tensor result() const override { return vectors_[0]; }

 protected:
  runtime::Runtime& rt_;
  Group& group_;
  const SumSpec spec_;
  std::vector<Tensor> vectors_;  // per shard of this worker
};

// The sum of f32 vectors as they are, into the first: a worker adds the maximal aligned subtrees of its own
// run, and the fixed-tree collective joins them. With another collective (ring) a worker adds its whole run
// first, and the order of additions depends on the number of workers.
struct DenseCall {
  std::uint32_t step = 0;
  std::uint16_t slot = 0;
  std::vector<collective::LeafRun> owners;
  std::int64_t scattered = 0;  // as SumSpec::scattered; the rest has `rest_slot`
  std::uint16_t rest_slot = 0;
};
runtime::Task<Status> add_dense(runtime::Runtime& rt, Group& group, const SumSpec& spec, DenseCall call,
                                std::vector<Tensor> vectors);

}  // namespace trireme::comm
