#include "trireme/comm/sum/factors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "trireme/comm/combine.h"
#include "trireme/comm/sum/coded_work.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {
namespace {

using runtime::Task;

constexpr std::int64_t kPieceElems = 1024;            // of an addition: sums stay in the nearest cache
constexpr std::size_t kFewLanes = 4, kMostLanes = 8;  // products at once: each is as large as the weight

// Products of consecutive shards, the first one a multiple of the number of lanes, become one node of the
// fixed tree; nodes that wait for their right half lie on a stack. The node takes up the `merged` top ones,
// each of which is the left half of the node that comes of it.
struct TreeRound {
  Combine sum;
  std::vector<const float*> lanes;  // products
  std::vector<float*> stack;        // places of nodes that wait, bottom first
  std::size_t waiting = 0, merged = 0;

  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; i += kPieceElems) piece(i, std::min(end - i, kPieceElems));
  }

 private:
  using Piece = std::array<float, kPieceElems>;

  void add(float* to, const float* left, const float* right, std::int64_t count) const {
    const auto bytes = [](const float* p) { return reinterpret_cast<const std::byte*>(p); };
    sum.merge(reinterpret_cast<std::byte*>(to), nullptr, bytes(left), bytes(right), count);
  }
  void piece(std::int64_t at, std::int64_t count) const {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::array<Piece, kMostLanes / 2> sums;
    const std::size_t pairs = (lanes.size() + 1) / 2;
    for (std::size_t i = 0; i < pairs; ++i)
      if (2 * i + 1 < lanes.size())
        add(sums[i].data(), lanes[2 * i] + at, lanes[2 * i + 1] + at, count);
      else
        std::memcpy(sums[i].data(), lanes[2 * i] + at, bytes);
    for (std::size_t half = 1; half < pairs; half *= 2)
      for (std::size_t i = 0; i + half < pairs; i += 2 * half)
        add(sums[i].data(), sums[i].data(), sums[i + half].data(), count);
    const float* right = sums[0].data();
    for (std::size_t i = 0; i < merged; ++i) {
      float* left = stack[waiting - 1 - i] + at;
      add(left, left, right, count);
      right = left;
    }
    if (merged == 0) std::memcpy(stack[waiting] + at, right, bytes);
  }
};

std::size_t lanes_of(std::int32_t num_shards, int shards_at_once) {
  const auto wanted = std::bit_floor(static_cast<std::size_t>(shards_at_once));
  return std::min(std::clamp(wanted, kFewLanes, kMostLanes),
                  std::bit_ceil(static_cast<std::size_t>(num_shards)));
}

// Every product is read, and every node that a sum takes up read and written.
cost::OpCost adding_cost(std::int64_t elems, std::size_t leaves, std::size_t merged) {
  const auto n = static_cast<double>(elems);
  const double adds = static_cast<double>(leaves + merged) - 1;
  const double passes = static_cast<double>(leaves + 2 * std::max<std::size_t>(1, merged));
  return {.flops = n * adds, .bytes = 4 * n * passes};
}

// Nodes that wait at most, beside the one that becomes the sum: in every second round one more waits, except
// in the last.
std::size_t waiting_of(std::int32_t num_shards, std::size_t lanes) {
  const std::size_t rounds = (static_cast<std::size_t>(num_shards) + lanes - 1) / lanes;
  return static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(1, rounds / 2))) - 1;
}

// The longest product.
std::int64_t longest(std::span<const Product> products) {
  std::int64_t most = 0;
  for (const Product& p : products) most = std::max(most, product_type(p).shape.num_elems());
  return most;
}

class Factors final : public GradientSum {
 public:
  Factors(runtime::Runtime& rt, Group& group, SumSpec spec)
      : rt_(rt), group_(group), spec_(std::move(spec)), scratch_(*spec_.scratch) {}

  Status take_shards(collective::LeafRun run) override {
    run_ = run;
    return all_.is_null() ? make() : Status();
  }
  // Factors lie by logical shard, where everybody has them.
  Tensor memory(std::size_t place) const override {
    return factors_of(static_cast<std::int64_t>(run_.first) + static_cast<std::int64_t>(place));
  }
  Tensor result() const override { return sum_; }

  Task<Status> sum(SumCall call) override {
    TR_CO_RETURN_IF_ERROR(co_await gather(call));
    co_await scratch_.take_turn();
    Status status;
    for (std::size_t p = 0; status.ok() && p < lanes_.size(); ++p) status = co_await multiply(p);
    scratch_.end_turn();
    co_return status;
  }

 private:
  Tensor factors_of(std::int64_t shard) const {
    return Tensor(all_.buffer(), {DType::kF32, {spec_.factor_elems}},
                  all_.offset_bytes() + static_cast<std::size_t>(shard * spec_.factor_elems) * 4);
  }
  Tensor factor(std::int64_t shard, std::int64_t offset, const TensorType& type) const {
    const Tensor own = factors_of(shard);
    return Tensor(own.buffer(), type, own.offset_bytes() + static_cast<std::size_t>(offset) * 4);
  }

  Status make();
  Task<Status> gather(const SumCall& call);
  Task<Status> multiply(std::size_t parameter);
  Task<void> add_round(const TensorType& type, float* sum, std::size_t round, std::size_t leaves, bool last);

  runtime::Runtime& rt_;
  Group& group_;
  const SumSpec spec_;
  FactorScratch& scratch_;
  collective::LeafRun run_;
  Tensor all_;  // factors of every logical shard, one after the other
  Tensor sum_;
  std::vector<std::vector<std::unique_ptr<exec::Execution>>> lanes_;  // per parameter
};

Status Factors::make() {
  const TensorType vector{DType::kF32, {spec_.num_shards * spec_.factor_elems}};
  TR_ASSIGN_OR_RETURN(all_, group_.allocate(vector));
  if (all_.raw() != nullptr) std::memset(all_.raw(), 0, vector.num_bytes());
  TR_ASSIGN_OR_RETURN(sum_, allocate_zeros(device_of(rt_), {DType::kF32, {spec_.num_elems}}));
  for (const FactorProduct& p : spec_.products) {
    auto& executions = lanes_.emplace_back();
    for (const Tensor& lane : scratch_.lanes()) {
      exec::ExecutionOptions options;
      options.bindings["grad"] = Tensor(lane.buffer(), product_type(p.product), lane.offset_bytes());
      TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt_, p.product, std::move(options)));
      executions.push_back(std::move(execution));
    }
  }
  return {};
}

// In place: the factors of this worker's shards are where all have them.
Task<Status> Factors::gather(const SumCall& call) {
  Call c;
  c.step = call.step;
  c.slot = spec_.slots.first;
  c.label = spec_.label + ", factors";
  for (const collective::LeafRun& run : call.owners) c.counts.push_back(run.count * spec_.factor_elems);
  Tensor block;
  co_return co_await group_.allgather(std::move(c), block, all_);
}

Task<Status> Factors::multiply(std::size_t parameter) {
  const FactorProduct& p = spec_.products[parameter];
  const TensorType u = factor_type(p.product, "u"), v = factor_type(p.product, "v"),
                   type = product_type(p.product);
  const Tensor sum(sum_.buffer(), type, sum_.offset_bytes() + static_cast<std::size_t>(p.offset) * 4);
  const auto shards = static_cast<std::size_t>(spec_.num_shards);
  const std::size_t lanes = scratch_.lanes().size();
  auto& executions = lanes_[parameter];
  for (std::size_t first = 0, round = 0; first < shards; first += lanes, ++round) {
    const std::size_t leaves = std::min(lanes, shards - first);
    std::vector<Task<Status>> running;
    for (std::size_t i = 0; i < leaves; ++i) {
      const auto shard = static_cast<std::int64_t>(first + i);
      TR_CO_RETURN_IF_ERROR(executions[i]->feed("u", factor(shard, p.u, u)));
      TR_CO_RETURN_IF_ERROR(executions[i]->feed("v", factor(shard, p.v, v)));
      running.push_back(executions[i]->run());
    }
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(running)));
    float* into = rt_.is_phantom() ? nullptr : sum.data<float>();
    co_await add_round(type, into, round, leaves, first + leaves == shards);
  }
  co_return Status();
}

// As a binary counter over rounds: a node waits for each bit that is set, and the last one closes them all.
Task<void> Factors::add_round(const TensorType& type, float* sum, std::size_t round, std::size_t leaves,
                              bool last) {
  TreeRound work;
  work.sum = *find_combine(DType::kF32, collective::Reduction::kSum);
  work.waiting = static_cast<std::size_t>(std::popcount(round));
  work.merged = last ? work.waiting : static_cast<std::size_t>(std::countr_one(round));
  if (!rt_.is_phantom()) {
    for (std::size_t i = 0; i < leaves; ++i) work.lanes.push_back(scratch_.lanes()[i].data<float>());
    work.stack.push_back(sum);
    for (const Tensor& place : scratch_.waiting()) work.stack.push_back(place.data<float>());
  }
  const std::int64_t count = type.shape.num_elems();
  const cost::OpCost cost = adding_cost(count, leaves, work.merged);
  runtime::ComputeFn run = [&work, count](runtime::ComputeContext& context) {
    context.parallel_for(count, [&work](std::int64_t begin, std::int64_t end, int) { work.run(begin, end); });
  };
  co_await rt_.compute(cost, std::move(run), scratch_.threads(), "add products");
}

}  // namespace

TensorType factor_type(const Product& product, const char* input) {
  return product->graph().type(*product->graph().find_input(input));
}
TensorType product_type(const Product& product) {
  return product->graph().type(*product->graph().find_output("grad"));
}

Result<std::shared_ptr<FactorScratch>> FactorScratch::make(runtime::Runtime& rt,
                                                           std::span<const Product> products,
                                                           std::int32_t num_shards, int at_once,
                                                           int threads) {
  const TensorType vector{DType::kF32, {longest(products)}};
  std::shared_ptr<FactorScratch> scratch(new FactorScratch(rt, threads));
  const std::size_t num_lanes = lanes_of(num_shards, at_once);
  for (std::size_t i = 0; i < num_lanes + waiting_of(num_shards, num_lanes); ++i) {
    TR_ASSIGN_OR_RETURN(Tensor memory, Tensor::allocate(device_of(rt), vector));
    (i < num_lanes ? scratch->lanes_ : scratch->waiting_).push_back(std::move(memory));
  }
  return scratch;
}

// The one before only computes, so the wait ends.
Task<void> FactorScratch::take_turn() {
  while (busy_) {
    runtime::OneShot<bool> turn(rt_);
    turns_.push_back(&turn);
    co_await turn.wait_until(kForever);
  }
  busy_ = true;
}

void FactorScratch::end_turn() {
  busy_ = false;
  if (turns_.empty()) return;
  turns_.front()->set(true);
  turns_.pop_front();
}

cost::OpCost products_cost(std::span<const Product> products, std::int32_t num_shards, int at_once) {
  const auto shards = static_cast<std::size_t>(num_shards);
  const std::size_t lanes = lanes_of(num_shards, at_once);
  const std::size_t together = std::min(lanes, static_cast<std::size_t>(at_once));
  cost::OpCost total;
  for (const Product& product : products) {
    for (std::size_t first = 0; first < shards; first += together) total += product->cost();
    for (std::size_t first = 0; first < shards; first += lanes)
      total += adding_cost(product_type(product).shape.num_elems(), std::min(lanes, shards - first), 1);
  }
  return total;
}

std::int64_t products_bytes(std::span<const Product> products, std::int32_t num_shards, int at_once) {
  const std::size_t lanes = lanes_of(num_shards, at_once);
  const std::size_t scratch = lanes + waiting_of(num_shards, lanes);
  std::int64_t elems = static_cast<std::int64_t>(scratch) * longest(products);
  for (const Product& p : products) elems += static_cast<std::int64_t>(lanes) * p->arena_bytes() / 4;
  return 4 * elems;
}

extern const SumRow kFactorSum;
constinit const SumRow kFactorSum{
    .name = "factors",
    .doc = "every worker gets the two factors of all shards' gradients and multiplies",
    .price = [](const SumShape& shape,
                const cost::Rates& rates) { return gather_seconds(shape, {shape.factor_elems}, rates); },
    .held_bytes = [](const SumShape&) { return 0.0; },
    .make = [](runtime::Runtime& rt, Group& group, SumSpec spec) -> std::unique_ptr<GradientSum> {
      return std::make_unique<Factors>(rt, group, std::move(spec));
    }};

}  // namespace trireme::comm
