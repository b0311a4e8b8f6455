// Memory that the sums of several buckets use in turn: one vector per shard of this worker.
#pragma once

#include <vector>

#include "trireme/comm/group.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {

// On the loop of one Runtime, which outlives it, as the group does.
class GradientMemory {
 public:
  GradientMemory(runtime::Runtime& rt, Group& group, std::int64_t num_elems)
      : rt_(rt), group_(group), num_elems_(num_elems) {}

  // As many vectors as there are shards. Those that stay are where they were.
  Status take_places(std::size_t count);
  const Tensor& place(std::size_t i) const { return places_[i]; }
  // Nobody reads or writes it until take_again(): it takes no memory, and what is in it is lost.
  void give_back();
  void take_again();

 private:
  runtime::Runtime& rt_;
  Group& group_;
  const std::int64_t num_elems_;
  std::vector<Tensor> places_;
  std::vector<GivenPages> given_;  // per place
};

}  // namespace trireme::comm
