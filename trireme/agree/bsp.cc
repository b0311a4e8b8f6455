// Bulk-synchronous: every step ends with the same sum of all logical shards' gradients on every rank (Valiant
// 1990).
//
// Shard gradients are added in plain f32 along the fixed binary tree over shards. A rank adds up the maximal
// aligned subtrees of its own run; the fixed-tree collective joins them. With another collective (ring) a
// rank adds its whole run first, and the order of summation depends on the number of ranks.
//
// With a codec every shard's gradient is encoded with a residual of its own, and what was decoded is added
// along the same tree (comm/coded_sum.h).
#include "trireme/agree/agree.h"

#include "trireme/agree/mechanism/low_rank.h"
#include "trireme/base/rng.h"
#include "trireme/collective/schedule.h"
#include "trireme/comm/coded_sum.h"
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
  explicit Bsp(const RuleContext& context) : rt_(*context.rt), group_(*context.workers), context_(context) {}

  Status take_shards(LeafRun run) override {
    if (low_rank_.empty())
      for (std::size_t b = 0; b < context_.weights.size(); ++b) {
        const RuleOptions& o = options(b);
        low_rank_.push_back(o.low_rank > 0 ? make_low_rank(b) : nullptr);
        coded_.push_back(o.coding.row != nullptr ? make_sum(b) : nullptr);
      }
    for (const auto& sum : low_rank_)
      if (sum != nullptr) TR_RETURN_IF_ERROR(sum->take_shards(run));
    for (const auto& sum : coded_)
      if (sum != nullptr) TR_RETURN_IF_ERROR(sum->take_shards(run));
    return {};
  }

  std::vector<std::pair<std::string, Tensor>> shard_state() const override {
    std::vector<std::pair<std::string, Tensor>> all;
    const auto add = [&](const auto& sums) {
      for (std::size_t b = 0; b < sums.size(); ++b)
        if (sums[b] != nullptr)
          for (auto& [name, tensor] : sums[b]->state())
            all.emplace_back(fmt::format("{}/{}", name, b), tensor);
    };
    add(coded_);
    add(low_rank_);
    return all;
  }

  RuleReport report() const override {
    RuleReport r;
    double messages = 0, bytes = 0, encode = 0, decode = 0;
    bool coded = false;
    for (const auto& sum : coded_) {
      if (sum == nullptr) continue;
      coded = true;
      messages += static_cast<double>(sum->stats().messages);
      bytes += sum->stats().bytes;
      encode += to_seconds(sum->stats().encode_ns);
      decode += to_seconds(sum->stats().decode_ns);
    }
    if (!coded) return r;
    r.more = {{"encoded_messages", messages},
              {"encoded_bytes", bytes},
              {"encode_seconds", encode},
              {"decode_seconds", decode}};
    return r;
  }

  Task<Status> exchange(BucketExchange bucket) override {
    const std::size_t b = bucket.bucket;
    if (!low_rank_.empty() && low_rank_[b] != nullptr && bucket.step >= options(b).coding.dense_steps)
      co_return co_await exchange_low_rank(std::move(bucket));
    if (!coded_.empty() && coded_[b] != nullptr && coded_[b]->encodes_at(bucket.step)) {
      comm::CodedCall call;
      call.step = bucket.step;
      call.slot = bucket.slot;
      call.size_slot = static_cast<std::uint16_t>(context_.weights.size() + bucket.slot);
      call.label = fmt::format("bucket {}", bucket.slot);
      call.owners = std::move(bucket.owners);
      co_return co_await coded_[bucket.bucket]->sum(std::move(call), std::move(bucket.shard_gradients));
    }
    if (!coded_.empty() && coded_[b] != nullptr)
      TR_CO_RETURN_IF_ERROR(co_await coded_[b]->watch(bucket.step, bucket.shard_gradients));
    co_return co_await exchange_dense(std::move(bucket));
  }

 private:
  const RuleOptions& options(std::size_t bucket) const {
    return context_.bucket_options.empty() ? context_.options : context_.bucket_options[bucket];
  }

  // Two sums of thin matrices.
  Task<Status> exchange_low_rank(BucketExchange bucket) {
    LowRank& sum = *low_rank_[bucket.bucket];
    const std::vector<Tensor> gradients = bucket.shard_gradients;
    TR_CO_ASSIGN_OR_RETURN(bucket.shard_gradients, co_await sum.project(gradients));
    TR_CO_RETURN_IF_ERROR(co_await exchange_dense(bucket));
    TR_CO_ASSIGN_OR_RETURN(bucket.shard_gradients, co_await sum.project_back(gradients));
    bucket.slot = static_cast<std::uint16_t>(context_.weights.size() + bucket.slot);
    TR_CO_RETURN_IF_ERROR(co_await exchange_dense(std::move(bucket)));
    co_return co_await sum.rebuild(gradients);
  }

  Task<Status> exchange_dense(BucketExchange bucket) {
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

  std::unique_ptr<comm::CodedSum> make_sum(std::size_t bucket) const {
    comm::CodedSumOptions o;
    o.coding = options(bucket).coding;
    o.packing = context_.packings[bucket];
    o.num_elems = context_.weights[bucket].shape().num_elems();
    o.num_shards = context_.num_shards;
    o.reducer = comm::reducer_of(options(bucket).reducer);
    o.key = mix_key(context_.seed, bucket);
    return std::make_unique<comm::CodedSum>(rt_, group_, std::move(o));
  }

  std::unique_ptr<LowRank> make_low_rank(std::size_t bucket) const {
    LowRankOptions o;
    o.matrices = context_.matrices[bucket];
    o.num_elems = context_.weights[bucket].shape().num_elems();
    o.rank = options(bucket).low_rank;
    o.feedback = options(bucket).low_rank_feedback;
    o.key = mix_key(context_.seed, bucket);
    std::int64_t end = 0;  // what lies between the matrices travels as it is
    for (const Matrix& m : o.matrices) {
      if (m.offset > end) o.plain.push_back({end, m.offset - end});
      end = m.offset + m.rows * m.cols;
    }
    if (end < o.num_elems) o.plain.push_back({end, o.num_elems - end});
    return std::make_unique<LowRank>(rt_, std::move(o));
  }

  runtime::Runtime& rt_;
  comm::Group& group_;
  const RuleContext context_;
  std::vector<std::unique_ptr<LowRank>> low_rank_;      // per bucket; null without it
  std::vector<std::unique_ptr<comm::CodedSum>> coded_;  // per bucket; null without a codec
};

}  // namespace

extern const AgreementRow kBsp{
    .name = "bsp",
    .doc = "Every step applies the same sum of all logical shards' gradients everywhere.",
    .paper = "Valiant, A bridging model for parallel computation, CACM 1990",
    .synchronous = true,
    .pace = Pace::kStep,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Bsp>(context);
    },
    .traffic =
        [](const OptionValues&, int) {
          cost::Traffic t;
          t.path = cost::Traffic::Path::kAllreduce;
          t.gradients = true;
          return t;
        },
    .no_codec = nullptr};

}  // namespace trireme::agree
