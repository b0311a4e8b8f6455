#include "trireme/engine/buckets.h"

#include <utility>

namespace trireme::engine {

using runtime::Task;

Buckets::Buckets(runtime::Runtime& rt, BucketsOptions options)
    : rt_(rt),
      o_(std::move(options)),
      queue_(plan().exchange_order, plan().buckets.size(), plan::kExchangesAtOnce),
      travelling_(plan().buckets.size(), false) {}

void Buckets::is_final(const StepInput& step, std::size_t bucket) {
  if (queue_.empty()) {  // all of the step before are applied, so nobody reads the old scalars any more
    step_ = step;
    o_.updates->begin(step);
  }
  TR_CHECK(step_.step == step.step && !travelling_[bucket],
           "bucket {} of step {} is final before step {} is applied", bucket, step.step, step_.step);
  travelling_[bucket] = true;
  queue_.add(bucket);
  start();
}

void Buckets::start() {
  while (const std::optional<std::size_t> bucket = queue_.next()) rt_.spawn(run(*bucket));
}

std::vector<std::size_t> Buckets::applied() const {
  std::vector<std::size_t> all;
  for (std::size_t b = 0; gated() && b < travelling_.size(); ++b)
    if (!travelling_[b]) all.push_back(b);
  return all;
}

void Buckets::has_ended(std::size_t bucket, const Status& status) {
  queue_.ended();
  travelling_[bucket] = false;
  if (status.ok()) {
    if (gated()) o_.runs->open(bucket);
    start();
  } else {
    if (failure_.ok()) failure_ = status;
    queue_.drop_waiting();
    if (gated()) o_.runs->cancel(status);  // nobody opens its layers any more
  }
  if (ended_ != nullptr) ended_->set(true);
}

// The sum over all shards is there when it ends.
Task<Status> Buckets::exchange(std::size_t bucket) {
  agree::BucketExchange exchange;
  exchange.step = static_cast<std::uint32_t>(step_.step);
  exchange.bucket = bucket;
  exchange.owners = *o_.owners;
  exchange.gradient = (*o_.sums)[bucket]->memory(0);
  TR_CO_RETURN_IF_ERROR(co_await o_.rule->exchange(std::move(exchange)));
  if (bucket + 1 < plan().buckets.size()) co_return Status();
  co_return o_.loss->on_sum();
}

void Buckets::add_kept(std::size_t bucket) {
  const Tensor sum = (*o_.sums)[bucket]->result();
  for (const auto& [offset, kept] : std::exchange(kept_[bucket], {})) {
    const std::span<float> to = sum.values<float>().subspan(static_cast<std::size_t>(offset));
    const std::span<const float> more = kept.values<float>();
    for (std::size_t i = 0; i < more.size(); ++i) to[i] += more[i];
  }
}

// Agree on one bucket, then apply it: backward of earlier layers may still run, but nobody reads these
// parameters.
Task<void> Buckets::run(std::size_t bucket) {
  const TimeNs began = rt_.now();
  Status status = co_await exchange(bucket);
  if (status.ok() && !kept_.empty()) add_kept(bucket);
  const int track = kFirstBucketTrack + static_cast<int>(bucket);
  o_.trace->note(fmt::format("exchange {}", bucket), "exchange", track, began);
  if (!o_.updates->wait_for_all()) {
    const TimeNs exchanged = rt_.now();
    if (status.ok()) status = co_await o_.updates->update(bucket);
    if (status.ok() && o_.shared) status = co_await meet(slots().updated(bucket));
    o_.trace->note(fmt::format("update {}", bucket), "update", track, exchanged);
  }
  has_ended(bucket, status);
}

// Shared weights: everybody has updated its part, and has read what it needs of this worker's gradients.
Task<Status> Buckets::meet(std::uint16_t slot) {
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step_.step);
  call.slot = slot;
  call.label = fmt::format("update {}", slot);
  co_return co_await o_.group->barrier(std::move(call));
}

Task<Status> Buckets::wait_for_metrics() {
  while (failure_.ok() && travelling_.back()) {
    ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
    co_await ended_->wait_until(kForever);
  }
  co_return failure_;
}

Task<Status> Buckets::wait_for_all() {
  while (!queue_.empty()) {
    ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
    co_await ended_->wait_until(kForever);
  }
  co_return failure_;
}

Task<Status> Buckets::fail(Status status) {
  if (failure_.ok()) {
    o_.group->fail("training step", status.message());
    queue_.drop_waiting();
  } else {
    status = failure_;
  }
  (void)co_await wait_for_all();
  co_return status;
}

Task<Status> Buckets::update_all(StepOutput& out) {
  TR_CO_RETURN_IF_ERROR(co_await o_.updates->check(step_, out));
  if (!out.applied) co_return Status();
  const TimeNs began = rt_.now();
  std::vector<Task<Status>> running;
  for (std::size_t i = 0; i < o_.updates->size(); ++i) running.push_back(o_.updates->update(i));
  Status status = co_await runtime::when_all(rt_, std::move(running));
  if (status.ok() && o_.shared) status = co_await meet(slots().rest());
  o_.trace->note("update", "update", kFirstBucketTrack, began);
  co_return status;
}

void Buckets::add_to_next(const std::map<std::string, Tensor>& kept) {
  const auto& buckets = plan().buckets;
  kept_.resize(buckets.size());
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (std::size_t p = 0; p < buckets[b].parameters.size(); ++p)
      if (const auto own = kept.find(buckets[b].parameters[p]); own != kept.end())
        kept_[b][buckets[b].offsets[p]] = own->second;
}

}  // namespace trireme::engine
