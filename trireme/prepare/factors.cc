#include "trireme/prepare/factors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>

#include "trireme/comm/combine.h"
#include "trireme/prepare/batch.h"
#include "trireme/runtime/sync.h"

namespace trireme::prepare {

using runtime::Task;

namespace {

constexpr std::int64_t kPieceElems = 1024;            // of an addition: sums stay in the nearest cache
constexpr std::size_t kFewLanes = 4, kMostLanes = 8;  // products at once: each is as large as the weight

// Products of consecutive shards, the first one a multiple of the number of lanes, become one node of the
// fixed tree; nodes that wait for their right half lie on a stack. The node takes up the `merged` top ones,
// each of which is the left half of the node that comes of it.
struct TreeRound {
  comm::Combine sum;
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

TensorType type_of(const Compiled& product, const char* input) {
  return product->graph().type(*product->graph().find_input(input));
}
TensorType gradient_type(const Compiled& product) {
  return product->graph().type(*product->graph().find_output("grad"));
}

// The longest product.
std::int64_t scratch_elems(const Prepared& prepared) {
  std::int64_t most = 0;
  for (const auto& products : prepared.products)
    for (const Compiled& p : products) most = std::max(most, gradient_type(p).shape.num_elems());
  return most;
}

}  // namespace

struct FactorExchange::Parts {
  Parts(runtime::Runtime& r, comm::Group& g, std::shared_ptr<const Prepared> p)
      : rt(r), group(g), prepared(std::move(p)) {}

  struct Bucket {
    Tensor all;       // of every logical shard, one after the other
    Tensor gradient;  // num_elems of the plan
    std::vector<std::vector<std::unique_ptr<exec::Execution>>> lanes;  // per parameter
  };

  runtime::Runtime& rt;
  comm::Group& group;
  std::shared_ptr<const Prepared> prepared;
  std::vector<Bucket> buckets;  // of the plan; empty ones for those that are not of factors
  std::vector<Tensor> lanes, waiting;
  bool multiplying = false;
  std::deque<runtime::OneShot<bool>*> turns;

  const plan::Plan& plan() const { return prepared->plan; }
  Device& device() const { return rt.is_phantom() ? phantom_device() : cpu_device(); }
  Tensor factor(std::size_t bucket, std::int32_t shard, std::size_t which, const TensorType& type) const {
    const plan::Bucket& planned = plan().buckets[bucket];
    const std::int64_t at = shard * planned.factor_elems + planned.factor_offsets[which];
    const Tensor& all = buckets[bucket].all;
    return Tensor(all.buffer(), type, all.offset_bytes() + static_cast<std::size_t>(at) * 4);
  }

  Status make_scratch();
  Status make_bucket(std::size_t at);
  Task<Status> gather(std::size_t bucket, std::uint32_t step, const std::vector<collective::LeafRun>& owners);
  Task<Status> multiply(std::size_t bucket);
  Task<Status> multiply_parameter(std::size_t bucket, std::size_t parameter);
  Task<void> add_round(const TensorType& type, float* sum, std::size_t round, std::size_t leaves, bool last);
};

Status FactorExchange::Parts::make_scratch() {
  const TensorType vector{DType::kF32, {scratch_elems(*prepared)}};
  const int at_once = std::max(1, rt.compute_threads() / std::max(1, plan().shard_threads));
  const std::size_t num_lanes = lanes_of(plan().logical_shards, at_once);
  for (std::size_t i = 0; i < num_lanes + waiting_of(plan().logical_shards, num_lanes); ++i) {
    TR_ASSIGN_OR_RETURN(Tensor memory, Tensor::allocate(device(), vector));
    (i < num_lanes ? lanes : waiting).push_back(std::move(memory));
  }
  return {};
}

Status FactorExchange::Parts::make_bucket(std::size_t at) {
  const plan::Bucket& planned = plan().buckets[at];
  Bucket& b = buckets.emplace_back();
  if (planned.codec != plan::kFactors) return {};
  const TensorType vector{DType::kF32, {plan().logical_shards * planned.factor_elems}};
  TR_ASSIGN_OR_RETURN(b.all, group.allocate(vector));
  if (b.all.raw() != nullptr) std::memset(b.all.raw(), 0, vector.num_bytes());
  TR_ASSIGN_OR_RETURN(b.gradient, allocate_zeros(device(), {DType::kF32, {planned.num_elems}}));
  for (const Compiled& product : prepared->products[at]) {
    auto& executions = b.lanes.emplace_back();
    for (const Tensor& lane : lanes) {
      exec::ExecutionOptions options;
      options.bindings["grad"] = Tensor(lane.buffer(), gradient_type(product), lane.offset_bytes());
      TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt, product, std::move(options)));
      executions.push_back(std::move(execution));
    }
  }
  return {};
}

// In place: the factors of this worker's shards are where all have them.
Task<Status> FactorExchange::Parts::gather(std::size_t bucket, std::uint32_t step,
                                           const std::vector<collective::LeafRun>& owners) {
  const plan::Bucket& planned = plan().buckets[bucket];
  comm::Call call;
  call.step = step;
  call.slot = planned.slot;
  call.label = fmt::format("bucket {}, factors", planned.slot);
  for (const collective::LeafRun& run : owners) call.counts.push_back(run.count * planned.factor_elems);
  Tensor block;
  co_return co_await group.allgather(std::move(call), block, buckets[bucket].all);
}

Task<Status> FactorExchange::Parts::multiply(std::size_t bucket) {
  while (multiplying) {
    runtime::OneShot<bool> turn(rt);
    turns.push_back(&turn);
    co_await turn.wait_until(kForever);  // the one before only computes
  }
  multiplying = true;
  Status status;
  for (std::size_t p = 0; status.ok() && p < buckets[bucket].lanes.size(); ++p)
    status = co_await multiply_parameter(bucket, p);
  multiplying = false;
  if (!turns.empty()) {
    turns.front()->set(true);
    turns.pop_front();
  }
  co_return status;
}

Task<Status> FactorExchange::Parts::multiply_parameter(std::size_t bucket, std::size_t parameter) {
  const Compiled& product = prepared->products[bucket][parameter];
  const TensorType u = type_of(product, "u"), v = type_of(product, "v"), type = gradient_type(product);
  const Tensor sum(buckets[bucket].gradient.buffer(), type,
                   static_cast<std::size_t>(plan().buckets[bucket].offsets[parameter]) * 4);
  const auto shards = static_cast<std::size_t>(plan().logical_shards);
  auto& executions = buckets[bucket].lanes[parameter];
  for (std::size_t first = 0, round = 0; first < shards; first += lanes.size(), ++round) {
    const std::size_t leaves = std::min(lanes.size(), shards - first);
    std::vector<Task<Status>> running;
    for (std::size_t i = 0; i < leaves; ++i) {
      const auto shard = static_cast<std::int32_t>(first + i);
      TR_CO_RETURN_IF_ERROR(executions[i]->feed("u", factor(bucket, shard, 2 * parameter, u)));
      TR_CO_RETURN_IF_ERROR(executions[i]->feed("v", factor(bucket, shard, 2 * parameter + 1, v)));
      running.push_back(executions[i]->run());
    }
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt, std::move(running)));
    float* into = rt.is_phantom() ? nullptr : sum.data<float>();
    co_await add_round(type, into, round, leaves, first + leaves == shards);
  }
  co_return Status();
}

// As a binary counter over rounds: a node waits for each bit that is set, and the last one closes them all.
Task<void> FactorExchange::Parts::add_round(const TensorType& type, float* sum, std::size_t round,
                                            std::size_t leaves, bool last) {
  TreeRound work;
  work.sum = *comm::find_combine(DType::kF32, collective::Reduction::kSum);
  work.waiting = static_cast<std::size_t>(std::popcount(round));
  work.merged = last ? work.waiting : static_cast<std::size_t>(std::countr_one(round));
  if (!rt.is_phantom()) {
    for (std::size_t i = 0; i < leaves; ++i) work.lanes.push_back(lanes[i].data<float>());
    work.stack.push_back(sum);
    for (const Tensor& place : waiting) work.stack.push_back(place.data<float>());
  }
  const std::int64_t count = type.shape.num_elems();
  const cost::OpCost cost = adding_cost(count, leaves, work.merged);
  runtime::ComputeFn run = [&work, count](runtime::ComputeContext& context) {
    context.parallel_for(count, [&work](std::int64_t begin, std::int64_t end, int) { work.run(begin, end); });
  };
  co_await rt.compute(cost, std::move(run), plan().shard_threads, "add products");
}

FactorExchange::FactorExchange(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
FactorExchange::~FactorExchange() = default;

Result<std::unique_ptr<FactorExchange>> FactorExchange::make(runtime::Runtime& rt, comm::Group& group,
                                                             std::shared_ptr<const Prepared> prepared) {
  if (scratch_elems(*prepared) == 0 || servers_multiply(prepared->plan))
    return std::unique_ptr<FactorExchange>();
  auto parts = std::make_unique<Parts>(rt, group, std::move(prepared));
  TR_RETURN_IF_ERROR(parts->make_scratch());
  for (std::size_t i = 0; i < parts->plan().buckets.size(); ++i) TR_RETURN_IF_ERROR(parts->make_bucket(i));
  return std::unique_ptr<FactorExchange>(new FactorExchange(std::move(parts)));
}

void FactorExchange::bind(std::size_t bucket, std::int32_t shard,
                          std::map<std::string, Tensor>& bindings) const {
  const std::vector<std::string>& names = parts_->plan().buckets[bucket].parameters;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const Compiled& product = parts_->prepared->products[bucket][p];
    bindings["factor:u:" + names[p]] = parts_->factor(bucket, shard, 2 * p, type_of(product, "u"));
    bindings["factor:v:" + names[p]] = parts_->factor(bucket, shard, 2 * p + 1, type_of(product, "v"));
  }
}

const Tensor& FactorExchange::gradient(std::size_t bucket) const { return parts_->buckets[bucket].gradient; }

Task<Status> FactorExchange::exchange(std::size_t bucket, std::uint32_t step,
                                      std::vector<collective::LeafRun> owners) {
  TR_CO_RETURN_IF_ERROR(co_await parts_->gather(bucket, step, owners));
  co_return co_await parts_->multiply(bucket);
}

cost::OpCost factor_cost(const Prepared& prepared, std::size_t bucket, int shards_at_once) {
  const auto shards = static_cast<std::size_t>(prepared.plan.logical_shards);
  const std::size_t lanes = lanes_of(prepared.plan.logical_shards, shards_at_once);
  const std::size_t at_once = std::min(lanes, static_cast<std::size_t>(shards_at_once));
  cost::OpCost total;
  for (const Compiled& product : prepared.products[bucket]) {
    for (std::size_t first = 0; first < shards; first += at_once) total += product->cost();
    for (std::size_t first = 0; first < shards; first += lanes)
      total += adding_cost(gradient_type(product).shape.num_elems(), std::min(lanes, shards - first), 1);
  }
  return total;
}

std::int64_t factor_bytes(const Prepared& prepared, int shards_at_once) {
  const plan::Plan& plan = prepared.plan;
  if (servers_multiply(plan)) {
    std::int64_t sent = 0;
    for (const plan::Bucket& b : plan.buckets) sent += b.codec == plan::kFactors ? b.factor_elems : 0;
    return 4 * sent;
  }
  const std::size_t lanes = lanes_of(plan.logical_shards, shards_at_once);
  const std::size_t scratch = lanes + waiting_of(plan.logical_shards, lanes);
  std::int64_t elems = static_cast<std::int64_t>(scratch) * scratch_elems(prepared);
  for (const plan::Bucket& b : plan.buckets)
    if (b.codec == plan::kFactors) elems += plan.logical_shards * b.factor_elems + b.num_elems;
  for (const auto& products : prepared.products)
    for (const Compiled& p : products) elems += static_cast<std::int64_t>(lanes) * p->arena_bytes() / 4;
  return 4 * elems;
}

}  // namespace trireme::prepare
