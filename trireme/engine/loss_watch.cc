#include "trireme/engine/loss_watch.h"
#include "trireme/tensor/host_zeros.h"

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
  HostLoss(runtime::Runtime& rt, const prepare::Prepared& prepared, bool skips, const comm::GradientSum& last)
      : LossWatch(rt, prepared, skips, last) {}

  void bind(std::size_t place, std::map<std::string, Tensor>& bindings) override {
    bind_metrics(metrics_in(last_.memory(place)), bindings);
  }
  void write_wishes() override {
    for (std::size_t i = 0; i < num_shards_; ++i) metrics(i)[2] = wishes(i);
  }
  Status on_notice(std::size_t place, int notice, const std::shared_ptr<Event>&) override {
    if (notice == prepared_.loss_notice && !rt_.is_phantom()) judge(place, metrics(place)[0]);
    return {};
  }
  Task<Status> on_end(std::size_t place) override {
    if (prepared_.device != nullptr) judge(place, metrics(place)[0]);
    co_return Status();
  }
  Status on_sum() override { return {}; }

 private:
  float* metrics(std::size_t place) const { return metrics_in(last_.memory(place)).data<float>(); }
  const float* summed() const override { return metrics_in(last_.result()).data<float>(); }
};

// Backward writes into memory of a GPU, which is looked at once a step for every shard, before anything
// leaves.
class DeviceLoss final : public LossWatch {
 public:
  DeviceLoss(runtime::Runtime& rt, const prepare::Prepared& prepared, const GpuSide& gpu, bool skips,
             const comm::GradientSum& last)
      : LossWatch(rt, prepared, skips, last), gpu_(gpu) {}

  void bind(std::size_t place, std::map<std::string, Tensor>& bindings) override {
    bind_metrics(metrics_in(last_.memory(place)), bindings);
  }
  void write_wishes() override {}  // when the loss is looked at
  Status on_notice(std::size_t place, int /*notice*/, const std::shared_ptr<Event>&) override {
    return look(place);
  }
  Task<Status> on_end(std::size_t place) override { co_return look(place); }
  Status on_sum() override { return gpu_.copy(metrics_in(last_.result()), here_); }

 private:
  Status look(std::size_t place) {
    if (looked_[place]) return {};
    looked_[place] = true;
    const Tensor there = metrics_in(last_.memory(place));
    TR_RETURN_IF_ERROR(gpu_.copy(there, here_));
    float* values = here_.data<float>();
    judge(place, values[0]);
    if (values[2] == wishes(place)) return {};
    values[2] = wishes(place);
    return gpu_.copy(here_, there);
  }
  const float* summed() const override { return here_.data<float>(); }
  void forget() override { looked_.assign(num_shards_, false); }

  const GpuSide& gpu_;
  const Tensor here_ = *allocate_zeros(cpu_device(), {DType::kF32, {3}});
  std::vector<bool> looked_;
};

// One shard, whose loss is there before backward begins, which goes on meanwhile.
class QueuedLoss final : public LossWatch {
 public:
  QueuedLoss(runtime::Runtime& rt, const prepare::Prepared& prepared, const GpuSide& gpu, bool skips,
             const comm::GradientSum& last)
      : LossWatch(rt, prepared, skips, last), gpu_(gpu) {}

  void bind(std::size_t /*place*/, std::map<std::string, Tensor>& bindings) override {
    bind_metrics(gpu_.queued_metrics, bindings);
  }
  void write_wishes() override { metrics_[2] = wishes(0); }
  Status on_notice(std::size_t /*place*/, int /*notice*/, const std::shared_ptr<Event>& point) override {
    written_ = point;
    return {};
  }
  Task<Status> on_end(std::size_t place) override {
    const std::shared_ptr<Event> written = std::exchange(written_, nullptr);
    Status status;
    runtime::ComputeFn wait = [&](runtime::ComputeContext&) { status = gpu_.queue->wait_for(written); };
    const cost::OpCost nothing;
    co_await rt_.compute(nothing, std::move(wait), 1, "wait for the loss");
    TR_CO_RETURN_IF_ERROR(status);
    std::copy_n(gpu_.queued_metrics.data<float>(), 2, metrics_);
    judge(place, metrics_[0]);
    co_return Status();
  }
  Status on_sum() override { return {}; }

 private:
  const float* summed() const override { return metrics_; }

  const GpuSide& gpu_;
  std::shared_ptr<Event> written_;  // where the queue has written the loss
  float metrics_[3] = {};
};

}  // namespace

std::unique_ptr<LossWatch> LossWatch::make(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                           const GpuSide& gpu, bool skips, const comm::GradientSum& last) {
  if (gpu.queue != nullptr) return std::make_unique<QueuedLoss>(rt, prepared, gpu, skips, last);
  if (gpu.mirror != nullptr) return std::make_unique<DeviceLoss>(rt, prepared, gpu, skips, last);
  return std::make_unique<HostLoss>(rt, prepared, skips, last);
}

void LossWatch::begin_step(const StepInput& input, std::size_t num_shards) {
  now_ = input;
  num_shards_ = num_shards;
  broken_ = -1;
  forget();
}

float LossWatch::wishes(std::size_t place) const {
  if (place > 0) return 0;
  return (now_.stop_wanted ? 1.0F : 0.0F) + (now_.save_wanted ? kSaveWish : 0.0F);
}

Tensor LossWatch::metrics_in(const Tensor& vector) const {
  const std::int64_t at = prepared_.plan.buckets.back().metrics_offset;
  return Tensor(vector.buffer(), {DType::kF32, {3}},
                vector.offset_bytes() + static_cast<std::size_t>(at) * 4);
}

void LossWatch::judge(std::size_t place, float loss) {
  if (!skips_ && !std::isfinite(loss) && broken_ < 0) broken_ = static_cast<int>(place);
}

void LossWatch::read(StepOutput& out) const {
  if (rt_.is_phantom()) return;
  const float* metrics = summed();
  out.loss = metrics[0];
  out.correct = metrics[1];
  const float save = kSaveWish * static_cast<float>(now_.num_batches);
  out.save = metrics[2] >= save;
  out.stop = metrics[2] - (out.save ? save : 0) > 0;
}

}  // namespace trireme::engine
