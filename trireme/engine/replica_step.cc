// One step of a Replica: batches, backward, exchange, update.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/engine/device_exchange.h"
#include "trireme/engine/first_broken.h"
#include "trireme/engine/replica_parts.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/own_update.h"

namespace trireme::engine {

using runtime::Task;

namespace {

// What encoders send are velocities: those of gradients that have nothing to do with each other are 1 /
// sqrt(1 - momentum^2) times as long, and so is the limit.
float clip_of_velocities(const job::Job& job, float norm) {
  const double momentum = job::coding_of(job).momentum;
  const double limit = job.train.optimizer.clip_norm / std::sqrt(1 - momentum * momentum);
  return static_cast<float>(std::min(1.0, limit / (static_cast<double>(norm) + 1e-6)));
}

}  // namespace

void Replica::Parts::begin_step(const StepInput& input) {
  now = input;
  exchange_early = input.num_batches == 1 && plan().overlap != plan::Overlap::kNone;
  broken_shard = -1;
  looked.assign(shards.size(), false);
  look_failure = {};
  pending = prepared->notices_of_bucket;
  for (int& n : pending) n *= static_cast<int>(shards.size());
}

// The first bucket of a step: all of the step before are applied, so nobody reads the old scalars any more.
void Replica::Parts::begin_updates() {
  exchanging = now;
  if (rt.is_phantom()) return;
  *learning_rate.data<float>() = now.learning_rate;
  *velocity_factor.data<float>() = now.velocity_factor;
  *momentum_kept.data<float>() = now.momentum_kept;
  *update_step.data<std::int64_t>() = now.applied + 1;
  *clip.data<float>() = 1;
}

// The loss comes before any gradient of its shard is final: where it is not a number no bucket leaves, so no
// rank can finish an exchange of this step and all weights stay as they are.
void Replica::Parts::on_notice(std::size_t shard, int notice) {
  if (notice == prepared->loss_notice && !rt.is_phantom() && !skips()) {
    const float loss = shards[shard].buckets.back().data<float>()[plan().buckets.back().metrics_offset];
    if (!std::isfinite(loss) && broken_shard < 0) broken_shard = static_cast<int>(shard);
  }
  if (!exchange_early) return;
  if (mirror != nullptr && !looked[shard] && look_failure.ok()) look_failure = look_at_loss(shard);
  if (!look_failure.ok()) return;
  const auto bucket = static_cast<std::size_t>(prepared->bucket_of_notice[static_cast<std::size_t>(notice)]);
  if (--pending[bucket] == 0 && broken_shard < 0) bucket_is_final(bucket);
}

// Loss, correct count, and the wish to stop.
Tensor Replica::Parts::metrics_of(const Tensor& last_bucket) const {
  return Tensor(
      last_bucket.buffer(), {DType::kF32, {3}},
      last_bucket.offset_bytes() + static_cast<std::size_t>(plan().buckets.back().metrics_offset) * 4);
}

void Replica::Parts::bucket_is_final(std::size_t bucket) {
  if (queue.empty()) begin_updates();
  TR_CHECK(exchanging.step == now.step && !travelling[bucket],
           "bucket {} of step {} is final before step {} is applied", bucket, now.step, exchanging.step);
  travelling[bucket] = true;
  queue.add(bucket);
  start_exchanges();
}

void Replica::Parts::start_exchanges() {
  while (const std::optional<std::size_t> bucket = queue.next()) rt.spawn(run_bucket(*bucket));
}

void Replica::Parts::bucket_has_ended(std::size_t bucket, const Status& status) {
  queue.ended();
  travelling[bucket] = false;
  if (status.ok()) {
    if (gated())
      for (const Shard& shard : shards) shard.execution->open(static_cast<int>(bucket));
    start_exchanges();
  } else {
    if (bucket_failure.ok()) bucket_failure = status;
    queue.drop_waiting();
    if (gated())  // nobody opens its gates any more
      for (const Shard& shard : shards) shard.execution->cancel(status);
  }
  if (bucket_ended != nullptr) bucket_ended->set(true);
}

// The sum is made on GPUs, or on the host by the rule; one shard has nothing to add.
Task<Status> Replica::Parts::exchange_on_gpu(std::size_t bucket) {
  if (plan().logical_shards == 1 && links.device_sum == nullptr) co_return Status();
  if (links.device_sum != nullptr) {
    if (!std::exchange(kept_on_gpu, true))
      TR_CO_RETURN_IF_ERROR(put_kept(links.device_sum.get(), *agreement));
    comm::DeviceCall call;
    call.step = static_cast<std::uint32_t>(exchanging.step);
    call.ready_slot = plan().buckets[bucket].slot;
    call.done_slot = static_cast<std::uint16_t>(plan().buckets.size() + bucket);
    call.label = fmt::format("bucket {}", bucket);
    call.vector = bucket;
    TR_CO_RETURN_IF_ERROR(co_await links.device_sum->sum(std::move(call)));
  } else {
    const cost::OpCost work{.bytes = 4.0 * static_cast<double>(plan().buckets[bucket].num_elems)};
    Status copied;
    runtime::ComputeFn down = [&](runtime::ComputeContext&) {
      for (const Shard& shard : shards)
        if (copied.ok()) copied = copy_on_gpu(shard.on_gpu[bucket], shard.buckets[bucket]);
    };
    co_await rt.compute(work, std::move(down), 1, "gradients to the host");
    TR_CO_RETURN_IF_ERROR(copied);
    TR_CO_RETURN_IF_ERROR(co_await agreement->exchange(exchange_of(bucket)));
    runtime::ComputeFn up = [&](runtime::ComputeContext&) {
      copied = copy_on_gpu(shards[0].buckets[bucket], shards[0].on_gpu[bucket]);
    };
    co_await rt.compute(work, std::move(up), 1, "gradients to the GPU");
    co_return copied;
  }
  if (bucket + 1 < plan().buckets.size()) co_return Status();
  co_return copy_on_gpu(metrics_of(shards[0].on_gpu.back()), metrics_of(shards[0].buckets.back()));
}

// The sum over all shards is there when it ends: of gradients by the rule, of factors' products otherwise.
Task<Status> Replica::Parts::exchange(std::size_t bucket) {
  const auto step = static_cast<std::uint32_t>(exchanging.step);
  if (by_factors(bucket)) return factors->exchange(bucket, step, owners);
  if (mirror != nullptr) return exchange_on_gpu(bucket);
  return agreement->exchange(exchange_of(bucket));
}

agree::BucketExchange Replica::Parts::exchange_of(std::size_t bucket) const {
  const plan::Bucket& planned = plan().buckets[bucket];
  agree::BucketExchange exchange;
  exchange.step = static_cast<std::uint32_t>(exchanging.step);
  exchange.slot = planned.slot;
  exchange.bucket = bucket;
  exchange.collective = planned.collective;
  exchange.owners = owners;
  exchange.num_shards = plan().logical_shards;
  for (const Shard& shard : shards) exchange.shard_gradients.push_back(shard.buckets[bucket]);
  if (shares() && !waits()) {
    exchange.scattered = prepare::parameter_elems(planned);
    exchange.rest_slot = rest_slot();
  }
  return exchange;
}

void Replica::Parts::add_once(std::size_t bucket) {
  for (const auto& [offset, kept] : std::exchange(once[bucket], {})) {
    const std::span<float> to = summed(bucket, offset, kept.type()).values<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += kept.data<float>()[i];
  }
}

// Agree on one bucket, then apply it: backward of earlier layers may still run, but nobody reads these
// parameters.
Task<void> Replica::Parts::run_bucket(std::size_t bucket) {
  const TimeNs began = rt.now();
  Status status = co_await exchange(bucket);
  if (status.ok() && !once.empty()) add_once(bucket);
  const int track = kFirstBucketTrack + static_cast<int>(bucket);
  note(fmt::format("exchange {}", bucket), "exchange", track, began);
  if (!waits()) {
    const TimeNs exchanged = rt.now();
    if (status.ok()) status = co_await update_bucket(bucket);
    if (status.ok() && shares())
      status = co_await meet(static_cast<std::uint16_t>(plan().buckets.size() + bucket));
    note(fmt::format("update {}", bucket), "update", track, exchanged);
  }
  bucket_has_ended(bucket, status);
}

Task<Status> Replica::Parts::update_bucket(std::size_t bucket) {
  if (updates_here && updates[bucket] != nullptr) TR_CO_RETURN_IF_ERROR(co_await updates[bucket]->run());
  const bool last = bucket + 1 == plan().buckets.size();
  if (last && statistics_update != nullptr && fills()) co_return co_await statistics_update->run();
  co_return Status();
}

// Shared weights: everybody has updated its part, and has read what it needs of this worker's gradients.
Task<Status> Replica::Parts::meet(std::uint16_t slot) {
  comm::Call call;
  call.step = static_cast<std::uint32_t>(exchanging.step);
  call.slot = slot;
  call.label = fmt::format("update {}", slot);
  co_return co_await group.barrier(std::move(call));
}

Task<Status> Replica::Parts::run_shard(std::size_t shard) {
  const TimeNs began = rt.now();
  Status status =
      prepare::feed_batch(*shards[shard].execution, prepared->train->graph(), prepared->input, batch[shard]);
  if (gated())
    for (std::size_t b = 0; b < travelling.size(); ++b)
      if (!travelling[b]) shards[shard].execution->open(static_cast<int>(b));
  if (status.ok()) status = co_await shards[shard].execution->run();
  if (status.ok()) status = look_failure;
  if (gpu_queue != nullptr) {
    if (status.ok()) status = co_await wait_for_loss();
  } else if (status.ok() && prepared->device != nullptr && !looked[shard])
    status = look_at_loss(shard);
  note(fmt::format("shard {}", shards[shard].index), "compute", static_cast<int>(shard), began);
  co_return status;
}

void Replica::Parts::scale_weights() {
  if (rt.is_phantom()) return;
  const float weight = now.num_samples > 0 ? 1.0F / static_cast<float>(now.num_samples) : 0.0F;
  const Result<Tensor> scale = variables.get(prepare::kLossScale);
  for (const prepare::BatchTensors& b : batch) {
    for (float& w : b.weights.values<float>()) w *= weight;
    *b.step.data<std::int64_t>() = now.step;
    if (scale.ok()) *b.loss_scale.data<float>() = *scale->data<float>();
  }
  // The last bucket's metrics: loss and correct are written by the graph, the wishes here, by the first
  // shard.
  const plan::Bucket& last = plan().buckets.back();
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].buckets.back().data<float>()[last.metrics_offset + 2] = i == 0 ? wishes() : 0.0F;
}

// Keeps the sum of the batches of a step: in batch order, so the bits are the same everywhere.
Task<void> Replica::Parts::add_to_sums(bool first, bool last) {
  for (Shard& shard : shards) {
    for (std::size_t i = 0; i < shard.buckets.size(); ++i) {
      const Tensor& bucket = shard.buckets[i];
      const Tensor& sum = shard.sums[i];
      const auto n = static_cast<double>(bucket.shape().num_elems());
      const cost::OpCost work{.flops = n, .bytes = 12 * n};
      runtime::ComputeFn add = [&bucket, &sum, first, last](runtime::ComputeContext&) {
        const std::span<float> to = (last ? bucket : sum).values<float>();
        const float *a = sum.data<float>(), *b = bucket.data<float>();
        if (first)
          std::memcpy(to.data(), b, to.size_bytes());
        else
          for (std::size_t k = 0; k < to.size(); ++k) to[k] = a[k] + b[k];
      };
      co_await rt.compute(work, std::move(add), 1, "add batches");
    }
  }
}

Task<Status> Replica::Parts::run_batches(StepOutput& out) {
  for (std::int64_t i = 0; i < now.num_batches; ++i) {
    const TimeNs asked = rt.now();
    if (!links.one_batch || batch.empty()) {
      auto next = co_await feed->next();
      if (!next.ok()) co_return next.status();
      out.data_ns += rt.now() - asked;
      if (out.data_ns > 0) note("wait for data", "data", 0, asked);
      batch = *next;
      scale_weights();
      if (links.one_batch && mirror != nullptr) TR_CO_RETURN_IF_ERROR(keep_batch());
    }
    std::vector<Task<Status>> running;
    for (std::size_t s = 0; s < shards.size(); ++s) running.push_back(run_shard(s));
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt, std::move(running)));
    if (broken_shard >= 0) co_return Status();  // the batch is still needed
    if (!links.one_batch) feed->release();
    if (now.num_batches > 1) co_await add_to_sums(i == 0, i + 1 == now.num_batches);
  }
  co_return Status();
}

// The last bucket, which holds them, is what the next step needs first.
Task<Status> Replica::Parts::wait_for_metrics() {
  while (bucket_failure.ok() && travelling.back()) {
    bucket_ended = std::make_unique<runtime::OneShot<bool>>(rt);
    co_await bucket_ended->wait_until(kForever);
  }
  co_return bucket_failure;
}

// Exchanges that began use the shards' memory: they end with the group's verdict. The others never begin.
Task<Status> Replica::Parts::wait_for_buckets() {
  while (!queue.empty()) {
    bucket_ended = std::make_unique<runtime::OneShot<bool>>(rt);
    co_await bucket_ended->wait_until(kForever);
  }
  co_return bucket_failure;
}

// A bucket that failed brought the group's verdict; anything else is this rank's own failure.
Task<Status> Replica::Parts::fail_step(Status status) {
  if (bucket_failure.ok()) {
    group.fail("training step", status.message());
    queue.drop_waiting();
  } else {
    status = bucket_failure;
  }
  (void)co_await wait_for_buckets();
  co_return status;
}

Task<Status> Replica::Parts::apply_all(StepOutput& out) {
  TR_CO_RETURN_IF_ERROR(co_await gate->run());
  TR_CO_RETURN_IF_ERROR(co_await wait_for_queue());
  bool all_good = true;
  if (!rt.is_phantom()) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor good, gate->fetch("finite"));
    all_good = *reinterpret_cast<const std::uint8_t*>(good.raw()) != 0 && std::isfinite(out.loss);
    if (job.train.optimizer.clip_norm > 0) {
      TR_CO_ASSIGN_OR_RETURN(const Tensor factor, gate->fetch("clip"));
      TR_CO_ASSIGN_OR_RETURN(const Tensor norm, gate->fetch("grad_norm"));
      *clip.data<float>() = exchanging.momentum_kept == 0 ? clip_of_velocities(job, *norm.data<float>())
                                                          : *factor.data<float>();
      out.grad_norm = *norm.data<float>();
    }
    *reinterpret_cast<std::uint8_t*>(finite.raw()) = all_good ? 1 : 0;
  }
  if (scale_update != nullptr) TR_CO_RETURN_IF_ERROR(co_await scale_update->run());
  if (scale_update != nullptr) TR_CO_RETURN_IF_ERROR(co_await wait_for_queue());
  if (scale_update != nullptr && mirror != nullptr)  // batches are fed with it
    TR_CO_RETURN_IF_ERROR(mirror->download(*variables.get(prepare::kLossScale)));
  out.applied = all_good || !skips();
  if (!out.applied) co_return Status();
  const TimeNs began = rt.now();
  std::vector<Task<Status>> running;
  for (std::size_t i = 0; i < updates.size(); ++i) running.push_back(update_bucket(i));
  Status status = co_await runtime::when_all(rt, std::move(running));
  if (status.ok() && shares()) status = co_await meet(rest_slot());
  note("update", "update", kFirstBucketTrack, began);
  co_return status;
}

Task<Status> Replica::Parts::explain_broken_loss() {
  std::string what;
  TR_CO_RETURN_IF_ERROR(co_await wait_for_queue());
  if (mirror != nullptr) TR_CO_RETURN_IF_ERROR(mirror->download_all());
  auto found = co_await find_first_broken(rt, prepared->train->graph(), variables, prepared->input,
                                          batch[static_cast<std::size_t>(broken_shard)], prepared->device);
  if (found.ok() && !found->empty()) what = "; the first tensor that broke: " + *found;
  co_return error(
      Code::kInternal,
      "[train] the loss is not a number at step {}{}; try a smaller train.optimizer.lr (the learning rate "
      "here was {}), a longer train.optimizer.warmup, train.optimizer.clip_norm = 1.0, or "
      "train.nan = \"skip\"",
      now.step + 1, what, now.learning_rate);
}

void Replica::Parts::read_metrics(StepOutput& out) const {
  if (rt.is_phantom()) return;
  const float* metrics = shards[0].buckets.back().data<float>() + plan().buckets.back().metrics_offset;
  out.loss = metrics[0];
  out.correct = metrics[1];
  const float save = kSaveWish * static_cast<float>(now.num_batches);
  out.save = metrics[2] >= save;
  out.stop = metrics[2] - (out.save ? save : 0) > 0;
}

Task<Result<StepOutput>> Replica::run_step(StepInput input) {
  Parts& p = *parts_;
  StepOutput out;
  p.begin_step(input);
  const TimeNs started = p.rt.now();
  Status status = co_await p.run_batches(out);
  if (status.ok() && p.broken_shard >= 0) {
    status = co_await p.wait_for_buckets();  // of the step before: what is explained is its result
    if (status.ok()) status = co_await p.explain_broken_loss();
  }
  if (!status.ok()) co_return co_await p.fail_step(std::move(status));
  const TimeNs computed = p.rt.now();
  if (!p.exchange_early)
    for (std::size_t i = 0; i < p.updates.size(); ++i) p.bucket_is_final(i);
  // Bounded by the group: a lost, silent or stuck rank ends every exchange with its verdict.
  if (p.gated())
    status = co_await p.wait_for_metrics();
  else
    status = co_await p.wait_for_buckets();
  if (!status.ok()) co_return co_await p.fail_step(std::move(status));
  p.read_metrics(out);
  if (p.waits()) TR_CO_RETURN_IF_ERROR(co_await p.apply_all(out));
  TimeNs held = 0;
  for (const Shard& shard : p.shards) held = std::max(held, shard.execution->held_ns());
  out.compute_ns = computed - started - out.data_ns - held;
  out.exposed_ns = p.rt.now() - computed + held;
  co_return out;
}

// What encoders on a GPU keep is then with the rule too, where checkpoints look for it.
Task<Status> Replica::drain() {
  TR_CO_RETURN_IF_ERROR(co_await parts_->wait_for_buckets());
  TR_CO_RETURN_IF_ERROR(co_await parts_->wait_for_queue());
  if (!parts_->kept_on_gpu) co_return Status();
  co_return fetch_kept(parts_->links.device_sum.get(), *parts_->agreement);
}

}  // namespace trireme::engine
