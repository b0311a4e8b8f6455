#include "trireme/engine/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::engine {
namespace {

using runtime::Task;

void bind_metrics(const Tensor& metrics, std::map<std::string, Tensor>& bindings) {
  const TensorType scalar{DType::kF32, Shape{}};
  bindings["loss"] = Tensor(metrics.buffer(), scalar, metrics.offset_bytes());
  bindings["correct"] = Tensor(metrics.buffer(), scalar, metrics.offset_bytes() + 4);
}

// Backward writes into memory of the host. Graphs for a GPU have no notice for the loss.
class HostLoss final : public LossWatch {
 public:
  HostLoss(runtime::Runtime& rt, Options options) : LossWatch(rt, std::move(options)) {}

  Status bind(std::size_t place, std::map<std::string, Tensor>& bindings) override {
    bind_metrics(o_.vote->metrics(place), bindings);
    return {};
  }
  // The loss and the correct count have a notice each.
  Status on_notice(std::size_t place, int notice, const std::shared_ptr<Event>&) override {
    const int first = o_.prepared->loss_notice;
    if (first < 0 || notice < first || notice > first + 1) return {};
    if (notice == first) look(place);  // before any gradient is final
    if (++heard_[place] == 2) know(place);
    return {};
  }
  Task<Status> on_end(std::size_t place) override {
    know(place);
    co_return Status();
  }

 private:
  void forget() override { heard_.assign(num_shards(), 0); }
  std::vector<int> heard_;  // per shard: how many of the two
};

// Backward writes into memory of a GPU, which is looked at once a step for every shard, before anything
// leaves.
class DeviceLoss final : public LossWatch {
 public:
  DeviceLoss(runtime::Runtime& rt, Options options) : LossWatch(rt, std::move(options)) {}

  Status bind(std::size_t place, std::map<std::string, Tensor>& bindings) override {
    if (there_.size() <= place) there_.resize(place + 1);
    TR_ASSIGN_OR_RETURN(there_[place], Tensor::allocate(*o_.gpu->device, {DType::kF32, {2}}));
    bind_metrics(there_[place], bindings);
    return {};
  }
  Status on_notice(std::size_t place, int /*notice*/, const std::shared_ptr<Event>&) override {
    return fetch(place);
  }
  Task<Status> on_end(std::size_t place) override { co_return fetch(place); }

 private:
  Status fetch(std::size_t place) {
    if (is_known(place)) return {};
    TR_RETURN_IF_ERROR(o_.gpu->copy(there_[place], o_.vote->metrics(place)));
    know(place);
    return {};
  }

  std::vector<Tensor> there_;  // per shard, on the GPU
};

// One shard, whose loss is there before backward begins, which goes on meanwhile.
class QueuedLoss final : public LossWatch {
 public:
  QueuedLoss(runtime::Runtime& rt, Options options) : LossWatch(rt, std::move(options)) {}

  Status bind(std::size_t /*place*/, std::map<std::string, Tensor>& bindings) override {
    bind_metrics(o_.gpu->queued_metrics, bindings);
    return {};
  }
  Status on_notice(std::size_t /*place*/, int /*notice*/, const std::shared_ptr<Event>& point) override {
    written_ = point;
    return {};
  }
  Task<Status> on_end(std::size_t place) override {
    const std::shared_ptr<Event> written = std::exchange(written_, nullptr);
    Status status;
    runtime::ComputeFn wait = [&](runtime::ComputeContext&) { status = o_.gpu->queue->wait_for(written); };
    const cost::OpCost nothing;
    co_await rt_.compute(nothing, std::move(wait), 1, "wait for the loss");
    TR_CO_RETURN_IF_ERROR(status);
    std::copy_n(o_.gpu->queued_metrics.data<float>(), 2, o_.vote->metrics(place).data<float>());
    know(place);
    co_return Status();
  }

 private:
  std::shared_ptr<Event> written_;  // where the queue has written the loss
};

}  // namespace

std::unique_ptr<LossWatch> LossWatch::make(runtime::Runtime& rt, Options options) {
  if (options.gpu->queue != nullptr) return std::make_unique<QueuedLoss>(rt, std::move(options));
  if (options.gpu->mirror != nullptr) return std::make_unique<DeviceLoss>(rt, std::move(options));
  return std::make_unique<HostLoss>(rt, std::move(options));
}

void LossWatch::begin_batch(std::size_t num_shards) {
  known_.assign(num_shards, false);
  broken_ = -1;
  forget();
}

void LossWatch::look(std::size_t place) {
  if (o_.skips || rt_.is_phantom() || broken_ >= 0) return;
  if (!std::isfinite(*o_.vote->metrics(place).data<float>())) broken_ = static_cast<int>(place);
}

void LossWatch::know(std::size_t place) {
  if (known_[place]) return;
  known_[place] = true;
  look(place);
  if (broken_ < 0) o_.on_known(place);
}

}  // namespace trireme::engine
