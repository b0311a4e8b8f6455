// tree: gradients travel as they are, in f32, and are added along the fixed binary tree over shards.
#include "trireme/comm/sum/host_sum.h"

namespace trireme::comm {
namespace {

class Tree final : public HostSum {
 public:
  using HostSum::HostSum;

  runtime::Task<Status> sum(SumCall call) override {
    DenseCall dense;
    dense.step = call.step;
    dense.slot = spec_.slots.first;
    dense.owners = std::move(call.owners);
    dense.scattered = spec_.scattered;
    dense.rest_slot = spec_.slots.rest;
    return add_dense(rt_, group_, spec_, std::move(dense), vectors_);
  }
};

}  // namespace

extern const SumRow kTreeSum;
constinit const SumRow kTreeSum{
    .name = "tree",
    .doc = "gradients as they are, along the fixed tree over shards",
    .price = [](const SumShape& shape,
                const cost::Rates& rates) { return dense_price(shape, shape.num_elems, rates); },
    .held_bytes = [](const SumShape&) { return 0.0; },
    .make = [](runtime::Runtime& rt, Group& group, SumSpec spec) -> std::unique_ptr<GradientSum> {
      return std::make_unique<Tree>(rt, group, std::move(spec));
    }};

}  // namespace trireme::comm
