#include "trireme/comm/sum/host_sum.h"

#include <algorithm>

#include "trireme/comm/sum/coded_work.h"
#include "trireme/comm/sum/gradient_memory.h"
#include "trireme/comm/sum/shard_tree.h"
#include "trireme/runtime/sync.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {
namespace {

using collective::LeafRun;
using collective::TreeNode;
using runtime::Task;

struct LocalNodes {
  LeafRun run;
  std::vector<TreeNode> nodes;
  bool fixed = true;  // nodes stay apart
};

Task<void> add_local(runtime::Runtime& rt, const std::vector<Tensor>& vectors, const LocalNodes& local) {
  const std::size_t adds = vectors.size() - (local.fixed ? local.nodes.size() : 1);
  if (adds == 0) co_return;
  const double elems = static_cast<double>(vectors[0].shape().num_elems());
  const cost::OpCost work{.flops = elems * static_cast<double>(adds),
                          .bytes = 12 * elems * static_cast<double>(adds)};
  const auto at = [&](std::size_t i) {
    return static_cast<std::size_t>(local.nodes[i].first - local.run.first);
  };
  co_await rt.compute(
      work,
      [&](runtime::ComputeContext&) {
        for (const TreeNode& node : local.nodes) add_tree_node(vectors, local.run, node);
        if (local.fixed) return;
        for (std::size_t i = 1; i < local.nodes.size(); ++i) add_vector(vectors[0], vectors[at(i)]);
      },
      1, "add shards");
}

// The elements from `begin` to `end`; the result is where the first partial is.
Task<Status> add_over_ranks(Group& group, Call call, std::vector<Tensor> partials, std::int64_t begin,
                            std::int64_t end) {
  for (Tensor& t : partials)
    t = Tensor(t.buffer(), {DType::kF32, {end - begin}},
               t.offset_bytes() + static_cast<std::size_t>(begin) * sizeof(float));
  if (call.num_leaves == 0) co_return co_await group.allreduce(std::move(call), partials[0]);
  co_return co_await group.allreduce_tree(std::move(call), partials, partials[0]);
}

}  // namespace

Status HostSum::take_shards(LeafRun run) {
  const TensorType vector{DType::kF32, {spec_.num_elems}};
  const auto count = static_cast<std::size_t>(run.count);
  while (vectors_.size() > count) vectors_.pop_back();
  if (spec_.vectors_in != nullptr) TR_RETURN_IF_ERROR(spec_.vectors_in->take_places(count));
  while (vectors_.size() < count) {
    if (spec_.vectors_in != nullptr) {
      const Tensor& all = spec_.vectors_in->place(vectors_.size());
      vectors_.emplace_back(all.buffer(), vector,
                            all.offset_bytes() + static_cast<std::size_t>(spec_.vectors_at) * sizeof(float));
      continue;
    }
    TR_ASSIGN_OR_RETURN(Tensor own,
                        vectors_.empty() ? group_.allocate(vector) : allocate_zeros(device_of(rt_), vector));
    vectors_.push_back(std::move(own));
  }
  return {};
}

Task<Status> add_dense(runtime::Runtime& rt, Group& group, const SumSpec& spec, DenseCall call,
                       std::vector<Tensor> vectors) {
  LocalNodes local;
  local.run = call.owners[static_cast<std::size_t>(group.rank())];
  local.fixed = spec.collective == "fixed-tree";
  local.nodes = collective::maximal_subtrees(local.run, spec.num_shards);
  co_await add_local(rt, vectors, local);
  Call sum;
  sum.step = call.step;
  sum.slot = call.slot;
  sum.label = spec.label;
  sum.algorithm = spec.collective;
  if (local.fixed) {
    sum.leaf_runs = call.owners;
    sum.num_leaves = spec.num_shards;
  }
  std::vector<Tensor> partials;
  for (std::size_t i = 0; i < (local.fixed ? local.nodes.size() : 1); ++i)
    partials.push_back(vectors[static_cast<std::size_t>(local.nodes[i].first - local.run.first)]);
  const std::int64_t count = partials[0].shape().num_elems();
  if (call.scattered == 0) co_return co_await add_over_ranks(group, std::move(sum), partials, 0, count);
  Call rest = sum;
  sum.own_chunk = true;
  rest.slot = call.rest_slot;
  rest.label += ", rest";
  std::vector<Task<Status>> both;
  both.push_back(add_over_ranks(group, std::move(sum), partials, 0, call.scattered));
  if (call.scattered < count)
    both.push_back(add_over_ranks(group, std::move(rest), partials, call.scattered, count));
  co_return co_await runtime::when_all(rt, std::move(both));
}

}  // namespace trireme::comm
