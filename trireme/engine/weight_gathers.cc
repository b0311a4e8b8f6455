#include "trireme/engine/weight_gathers.h"

#include <algorithm>

#include "trireme/prepare/own_update.h"

namespace trireme::engine {

using runtime::Task;

namespace {

constexpr int kAtOnce = 2;                       // one whose layers run, one on its way
constexpr std::uint16_t kBetweenSteps = 0xFFFF;  // in the place of a batch

}  // namespace

Task<Status> WeightGathers::gather(std::size_t bucket, comm::Call call) {
  const plan::Bucket& planned = plan().buckets[bucket];
  const std::int64_t elems = prepare::parameter_elems(planned);
  if (elems == 0) co_return Status();
  for (int replica = 0; replica < plan().workers(); ++replica)
    call.counts.push_back(prepare::own_part(plan(), planned, replica).size());
  call.label = fmt::format("weights of bucket {}", planned.slot);
  if (divides_parameters()) o_.weights->take_others(bucket);
  const Tensor whole = o_.weights->vectors()[bucket];
  const Tensor all(whole.buffer(), {DType::kF32, {elems}}, whole.offset_bytes());
  const Tensor in_place;
  co_return co_await o_.peers->allgather(std::move(call), in_place, all);
}

Task<Status> WeightGathers::after_update(std::size_t bucket, std::uint32_t step) {
  comm::Call call;
  call.step = step;
  call.slot = plan::Slots{plan().buckets.size()}.gathered(bucket);
  co_return co_await gather(bucket, std::move(call));
}

void WeightGathers::begin(std::uint32_t step, std::uint16_t batch) {
  step_ = step;
  batch_ = batch;
  next_ = 0;
  live_ = 0;
  left_.clear();
  const auto shards = o_.runs->size();
  const std::vector<int>& buckets = o_.prepared->bucket_of_notice;
  for (const prepare::WeightGather& g : list()) {
    const auto of_bucket = std::count(buckets.begin(), buckets.end(), static_cast<int>(g.bucket));
    left_.push_back(shards * (g.read_notice >= 0 ? 1 : static_cast<std::size_t>(of_bucket)));
  }
  start_next();
}

// What is read on both ways is given back in between. That needs nothing that comes on the way back.
bool WeightGathers::may_start_next() const {
  if (!failure_.ok() || next_ >= list().size()) return false;
  for (std::size_t i = 0; list()[next_].back && i < next_; ++i)
    if (list()[i].bucket == list()[next_].bucket && left_[i] > 0) return false;
  return true;
}

// Beyond kAtOnce only where shards would stand.
void WeightGathers::start_next() {
  while (live_ < kAtOnce && may_start_next()) start();
}

void WeightGathers::on_held() {
  if (under_way_ == 0 && may_start_next()) start();
}

void WeightGathers::start() {
  ++live_;
  ++under_way_;
  rt_.spawn(run(next_++));
}

Task<void> WeightGathers::run(std::size_t at) {
  const prepare::WeightGather& g = list()[at];
  const plan::Slots slots{plan().buckets.size()};
  comm::Call call;
  call.step = step_;
  call.iteration = batch_;
  call.slot = g.back ? slots.gathered_again(g.bucket) : slots.gathered(g.bucket);
  const Status status = co_await gather(g.bucket, std::move(call));
  --under_way_;
  if (status.ok()) {
    for (const int gate : g.gates) o_.runs->open(static_cast<std::size_t>(gate));
  } else if (failure_.ok()) {
    failure_ = status;
    o_.runs->cancel(status);
  }
  if (ended_ != nullptr) ended_->set(true);
}

void WeightGathers::on_notice(int notice) {
  const int bucket = o_.prepared->bucket_of_notice[static_cast<std::size_t>(notice)];
  for (std::size_t i = 0; i < list().size(); ++i) {
    const prepare::WeightGather& g = list()[i];
    const bool is_read = g.read_notice >= 0 ? notice == g.read_notice : bucket == static_cast<int>(g.bucket);
    if (!is_read) continue;
    if (--left_[i] > 0) return;
    o_.weights->give_back_others(g.bucket);
    --live_;
    return start_next();
  }
}

Task<void> WeightGathers::drained() {
  while (under_way_ > 0) {
    ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
    co_await ended_->wait_until(kForever);
    ended_ = nullptr;
  }
}

Task<Status> WeightGathers::bring(std::size_t bucket, Number number) {
  const plan::Slots slots{plan().buckets.size()};
  comm::Call call;
  call.step = number.step;
  call.iteration = number.number;
  call.slot = number.of_evaluation ? slots.gathered_again(bucket) : slots.gathered(bucket);
  co_return co_await gather(bucket, std::move(call));
}

Task<Status> WeightGathers::gather_all(std::uint32_t step) {
  const plan::Slots slots{plan().buckets.size()};
  for (std::size_t b = 0; divides_parameters() && b < plan().buckets.size(); ++b) {
    comm::Call call;
    call.step = step;
    call.iteration = kBetweenSteps;
    call.slot = slots.gathered(b);
    TR_CO_RETURN_IF_ERROR(co_await gather(b, std::move(call)));
  }
  co_return Status();
}

void WeightGathers::give_back_all() {
  for (std::size_t b = 0; divides_parameters() && b < plan().buckets.size(); ++b)
    o_.weights->give_back_others(b);
}

}  // namespace trireme::engine
