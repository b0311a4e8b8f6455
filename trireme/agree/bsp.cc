// Bulk-synchronous: every step ends with the same sum of all logical shards' gradients on every rank (Valiant
// 1990).
//
// Shard gradients are added in plain f32 along the fixed binary tree over shards. A rank adds up the maximal
// aligned subtrees of its own run; the fixed-tree collective joins them. With another collective (ring) a
// rank adds its whole run first, and the order of summation depends on the number of ranks.
#include "trireme/agree/bsp.h"

#include "trireme/collective/schedule.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

using collective::LeafRun;
using collective::TreeNode;
using runtime::Task;

void add_into(const Tensor& to, const Tensor& from) {
  float* a = to.data<float>();
  const float* b = from.data<float>();
  const std::int64_t n = to.shape().num_elems();
  for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
}

// Adds the leaves of `node` into its first leaf's tensor: left half, right half, then left += right.
void add_subtree(std::span<const Tensor> shards, std::int32_t run_first, std::int32_t first,
                 std::int32_t level, std::int32_t end) {
  if (level == 0) return;
  const std::int32_t half = std::int32_t{1} << (level - 1);
  add_subtree(shards, run_first, first, level - 1, end);
  if (first + half >= end) return;  // no right half: the node is its left child
  add_subtree(shards, run_first, first + half, level - 1, end);
  add_into(shards[static_cast<std::size_t>(first - run_first)],
           shards[static_cast<std::size_t>(first + half - run_first)]);
}

class Bsp final : public Agreement {
 public:
  Bsp(runtime::Runtime& rt, comm::Group& group) : rt_(rt), group_(group) {}

  Task<Status> exchange(BucketExchange bucket) override {
    const LeafRun run = bucket.owners[static_cast<std::size_t>(group_.rank())];
    const bool fixed = bucket.collective == "fixed-tree";
    std::vector<TreeNode> nodes = collective::maximal_subtrees(run, bucket.num_shards);
    const std::size_t num_nodes = nodes.size();
    co_await add_local(bucket, run, nodes, fixed);
    comm::Call call;
    call.step = bucket.step;
    call.slot = bucket.slot;
    call.label = fmt::format("bucket {}", bucket.slot);
    call.algorithm = bucket.collective;
    if (fixed) {
      call.leaf_runs = bucket.owners;
      call.num_leaves = bucket.num_shards;
    }
    std::vector<Tensor> partials;
    for (std::size_t i = 0; i < (fixed ? num_nodes : 1); ++i)
      partials.push_back(bucket.shard_gradients[static_cast<std::size_t>(nodes[i].first - run.first)]);
    const std::int64_t count = partials[0].shape().num_elems();
    if (bucket.scattered == 0) co_return co_await sum(std::move(call), partials, 0, count);
    comm::Call rest = call;
    call.own_chunk = true;
    rest.slot = bucket.rest_slot;
    rest.label += ", rest";
    std::vector<Task<Status>> both;
    both.push_back(sum(std::move(call), partials, 0, bucket.scattered));
    if (bucket.scattered < count) both.push_back(sum(std::move(rest), partials, bucket.scattered, count));
    co_return co_await runtime::when_all(rt_, std::move(both));
  }

 private:
  // Of the elements from `begin` to `end`; the result is where the first partial is.
  Task<Status> sum(comm::Call call, std::vector<Tensor> partials, std::int64_t begin, std::int64_t end) {
    for (Tensor& t : partials)
      t = Tensor(t.buffer(), {DType::kF32, {end - begin}},
                 t.offset_bytes() + static_cast<std::size_t>(begin) * sizeof(float));
    if (call.num_leaves == 0) co_return co_await group_.allreduce(std::move(call), partials[0]);
    co_return co_await group_.allreduce_tree(std::move(call), partials, partials[0]);
  }

  Task<void> add_local(const BucketExchange& bucket, LeafRun run, const std::vector<TreeNode>& nodes,
                       bool fixed) {
    const std::size_t adds = bucket.shard_gradients.size() - (fixed ? nodes.size() : 1);
    if (adds == 0) co_return;
    const double elems = static_cast<double>(bucket.shard_gradients[0].shape().num_elems());
    const cost::OpCost work{.flops = elems * static_cast<double>(adds),
                            .bytes = 12 * elems * static_cast<double>(adds)};
    co_await rt_.compute(
        work,
        [&](runtime::ComputeContext&) {
          for (const TreeNode& node : nodes)
            add_subtree(bucket.shard_gradients, run.first, node.first, node.level, run.first + run.count);
          if (fixed) return;
          for (std::size_t i = 1; i < nodes.size(); ++i)
            add_into(bucket.shard_gradients[0],
                     bucket.shard_gradients[static_cast<std::size_t>(nodes[i].first - run.first)]);
        },
        1, "add shards");
  }

  runtime::Runtime& rt_;
  comm::Group& group_;
};

}  // namespace

std::unique_ptr<Agreement> make_bsp(const RuleContext& context) {
  return std::make_unique<Bsp>(*context.rt, *context.workers);
}

}  // namespace trireme::agree
