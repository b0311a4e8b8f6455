#include "trireme/engine/batch_feed.h"

#include <algorithm>
#include <limits>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

using runtime::Task;

// Memory and processor are all that a batch waits for.
constexpr TimeNs kPatience = 600 * kSecond;

struct BatchFeed::State {
  State(runtime::Runtime& r, BatchFeedOptions o) : rt(r), options(std::move(o)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (options.ahead == nullptr) return;
    for (const auto& slot : slots)
      for (const prepare::BatchTensors& b : slot)
        for (const Tensor* t : {&b.x, &b.labels}) options.ahead->free(*t);
  }

  runtime::Runtime& rt;
  BatchFeedOptions options;
  std::vector<std::vector<prepare::BatchTensors>> slots;  // [slot][shard]

  std::vector<LeasedBatch> leased;  // [slot]
  LeaseSource source;

  // A thread of the pool waits where a batch made from the same memory is still on its way to the GPU.
  static Task<Status> settle(State& state, const prepare::BatchTensors& batch) {
    exec::DeviceAhead& ahead = *state.options.ahead;
    if (ahead.is_settled(batch.x) && ahead.is_settled(batch.labels)) co_return Status();
    Status status;
    runtime::ComputeFn wait = [&](runtime::ComputeContext&) {
      status = ahead.settle(batch.x);
      if (status.ok()) status = ahead.settle(batch.labels);
    };
    const cost::OpCost work;
    co_await state.rt.compute(work, std::move(wait), 1, "copies ahead");
    co_return status;
  }

  static Task<Status> make_shard(std::shared_ptr<State> state, Unit unit, int slot, std::size_t at) {
    const BatchFeedOptions& o = state->options;
    const std::int64_t per_epoch = o.order.batches_per_epoch();
    const std::int64_t epoch = unit.batch / per_epoch;
    const data::ShardSamples samples = o.order.shard(epoch, unit.batch % per_epoch, unit.shard);
    const prepare::BatchTensors& out = state->slots[static_cast<std::size_t>(slot)][at];
    state->leased[static_cast<std::size_t>(slot)].num_samples = samples.num_valid;
    data::PlannedBatch planned;
    planned.ids = samples.ids;
    planned.options.augment = true;
    planned.options.seed = o.seed;
    planned.options.epoch = epoch;
    if (o.ahead != nullptr) TR_CO_RETURN_IF_ERROR(co_await settle(*state, out));
    const data::BatchView view = prepare::view_of(out, o.input);
    co_await data::fill_on_pool(state->rt, o.data, std::move(planned), view);
    if (out.x.raw() == nullptr) co_return Status();
    std::fill(view.weights.begin() + samples.num_valid, view.weights.end(), 0.0F);
    std::copy(samples.ids.begin(), samples.ids.end(), out.sample_ids.values<std::int64_t>().begin());
    if (o.ahead != nullptr)
      for (const Tensor* t : {&out.x, &out.labels}) TR_CO_RETURN_IF_ERROR(o.ahead->send(*t));
    co_return Status();
  }

  static Task<Status> make_batch(std::shared_ptr<State> state, std::int64_t batch, int slot) {
    std::vector<Task<Status>> shards;
    const BatchFeedOptions& o = state->options;
    for (std::size_t i = 0; i < state->slots.front().size(); ++i) {
      const std::int32_t shard = o.shards.first + o.stride * static_cast<std::int32_t>(i);
      shards.push_back(make_shard(state, {batch, shard}, slot, i));
    }
    co_return co_await runtime::when_all(state->rt, std::move(shards));
  }

  static Task<Status> make_leased(std::shared_ptr<State> state, int slot) {
    Result<Lease> lease = co_await state->source();
    if (!lease.ok()) co_return lease.status();
    state->leased[static_cast<std::size_t>(slot)].lease = *lease;
    if (!lease->unit) co_return Status();
    co_return co_await make_shard(state, *lease->unit, slot, 0);
  }
};

BatchFeed::BatchFeed(runtime::Runtime& rt, std::shared_ptr<State> state)
    : rt_(rt), state_(std::move(state)) {}
BatchFeed::~BatchFeed() = default;

Result<std::unique_ptr<BatchFeed>> BatchFeed::make(runtime::Runtime& rt, BatchFeedOptions options) {
  auto state = std::make_shared<State>(rt, std::move(options));
  const BatchFeedOptions& o = state->options;
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  const auto key = static_cast<std::int64_t>(mix_key(o.seed, hash_text("dropout")));
  state->leased.resize(static_cast<std::size_t>(o.depth) + 1);
  for (int s = 0; s < o.depth + 1; ++s) {
    auto& slot = state->slots.emplace_back();
    for (std::int32_t i = 0; i < o.shards.count; ++i) {
      TR_ASSIGN_OR_RETURN(prepare::BatchTensors b,
                          prepare::allocate_batch(device, o.input, o.order.shard_batch()));
      if (o.ahead != nullptr)
        for (Tensor* t : {&b.x, &b.labels}) {
          Result<Tensor> locked = o.ahead->allocate(t->type());
          if (locked.ok()) *t = std::move(*locked);  // else it is copied when it is used
        }
      if (b.key.raw() != nullptr) *b.key.data<std::int64_t>() = key;
      slot.push_back(std::move(b));
    }
  }
  return std::unique_ptr<BatchFeed>(new BatchFeed(rt, std::move(state)));
}

void BatchFeed::start(std::int64_t first, std::int64_t end) {
  const auto depth = static_cast<int>(state_->slots.size());
  prefetcher_ = std::make_unique<data::Prefetcher>(
      rt_, depth, first, end,
      [state = state_](std::int64_t batch, int slot) { return State::make_batch(state, batch, slot); });
}

void BatchFeed::start(LeaseSource source) {
  state_->source = std::move(source);
  const auto depth = static_cast<int>(state_->slots.size());
  prefetcher_ = std::make_unique<data::Prefetcher>(
      rt_, depth, 0, std::numeric_limits<std::int64_t>::max(),
      [state = state_](std::int64_t, int slot) { return State::make_leased(state, slot); });
}

Task<Result<LeasedBatch>> BatchFeed::next_leased() {
  // Whoever gives units is rank 0: the membership sees to it that it answers.
  Result<int> slot = co_await prefetcher_->next(kForever);
  if (!slot.ok()) co_return slot.status();
  LeasedBatch batch = state_->leased[static_cast<std::size_t>(*slot)];
  batch.tensors =
      std::span<const prepare::BatchTensors>(state_->slots[static_cast<std::size_t>(*slot)]).first(1);
  co_return batch;
}

Task<Result<std::span<const prepare::BatchTensors>>> BatchFeed::next() {
  const TimeNs deadline = rt_.now() + kPatience;
  Result<int> slot = co_await prefetcher_->next(deadline);
  if (!slot.ok()) co_return slot.status();
  co_return std::span<const prepare::BatchTensors>(state_->slots[static_cast<std::size_t>(*slot)]);
}

void BatchFeed::release() { prefetcher_->release(); }

const data::PrefetchCounters& BatchFeed::counters() const { return prefetcher_->counters(); }
const job::SampleOrder& BatchFeed::order() const { return state_->options.order; }

std::int64_t BatchFeed::num_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& slot : state_->slots)
    for (const prepare::BatchTensors& b : slot)
      for (const Tensor* t : {&b.x, &b.labels, &b.weights, &b.sample_ids, &b.key, &b.step, &b.loss_scale})
        bytes += static_cast<std::int64_t>(t->type().num_bytes());
  return bytes;
}

}  // namespace trireme::engine
