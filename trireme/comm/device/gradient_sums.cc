#include "trireme/comm/device/gradient_sums.h"

#include <cstring>
#include <utility>

#include "trireme/kernel/cuda/cuda.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {
namespace {

using runtime::Task;

Status copy_between(Device& gpu, const Tensor& from, const Tensor& to) {
  const std::size_t bytes = from.type().num_bytes();
  if (bytes == 0) return {};
  return gpu.copy(from.buffer().slice(from.offset_bytes(), bytes),
                  to.buffer().slice(to.offset_bytes(), bytes), nullptr);
}

Result<Tensor> zeros_on(Device& gpu, const TensorType& type) {
  TR_ASSIGN_OR_RETURN(const Tensor nothing, allocate_zeros(cpu_device(), type));
  TR_ASSIGN_OR_RETURN(Tensor there, Tensor::allocate(gpu, type));
  TR_RETURN_IF_ERROR(copy_between(gpu, nothing, there));
  return there;
}

class DeviceGradients final : public GradientSum {
 public:
  DeviceGradients(std::shared_ptr<DeviceSum> sum, std::size_t vector, SumSpec spec)
      : sum_(std::move(sum)), vector_(vector), spec_(std::move(spec)) {}

  Status take_shards(collective::LeafRun run) override {
    const TensorType type{DType::kF32, {spec_.num_elems}};
    TR_ASSIGN_OR_RETURN(const Tensor nothing, allocate_zeros(cpu_device(), type));
    for (std::int32_t s = 0; s < run.count; ++s) {
      const Tensor there = memory(static_cast<std::size_t>(s));
      TR_RETURN_IF_ERROR(copy_between(there.buffer().device(), nothing, there));
    }
    kept_.clear();
    const std::string ending = fmt::format("/{}", vector_);
    for (const auto& [name, there] : sum_->state()) {
      if (!name.ends_with(ending)) continue;
      TR_ASSIGN_OR_RETURN(Tensor here, allocate_zeros(cpu_device(), there.type()));
      kept_.push_back({name.substr(0, name.size() - ending.size()), std::move(here), there});
    }
    return {};
  }
  Tensor memory(std::size_t place) const override { return sum_->memory(place, vector_); }
  Tensor result() const override { return memory(0); }

  NamedState state() const override {
    NamedState all;
    for (const Kept& k : kept_) all.emplace_back(k.name, k.here);
    return all;
  }
  Status fetch_state() override {
    for (const Kept& k : kept_)
      if (begun_) TR_RETURN_IF_ERROR(copy_between(k.there.buffer().device(), k.there, k.here));
    return {};
  }

  Task<Status> sum(SumCall call) override {
    if (!std::exchange(begun_, true))
      for (const Kept& k : kept_)
        TR_CO_RETURN_IF_ERROR(copy_between(k.there.buffer().device(), k.here, k.there));
    DeviceCall c;
    c.step = call.step;
    c.ready_slot = spec_.slots.first;
    c.done_slot = spec_.slots.second;
    c.label = spec_.label;
    c.vector = vector_;
    co_return co_await sum_->sum(std::move(c));
  }

 private:
  struct Kept {
    std::string name;
    Tensor here, there;
  };
  const std::shared_ptr<DeviceSum> sum_;
  const std::size_t vector_;
  const SumSpec spec_;
  std::vector<Kept> kept_;
  bool begun_ = false;  // what is kept is on the GPU
};

class StagedGradients final : public GradientSum {
 public:
  StagedGradients(runtime::Runtime& rt, std::shared_ptr<Device> gpu, std::unique_ptr<GradientSum> host)
      : rt_(rt), gpu_(std::move(gpu)), host_(std::move(host)) {}

  Status take_shards(collective::LeafRun run) override {
    TR_RETURN_IF_ERROR(host_->take_shards(run));
    const auto count = static_cast<std::size_t>(run.count);
    while (places_.size() > count) places_.pop_back();
    while (places_.size() < count) {
      const Tensor here = host_->memory(places_.size());
      const std::size_t bytes = here.type().num_bytes();
      std::memset(here.raw(), 0, bytes);  // memory of a group is as others left it
      TR_ASSIGN_OR_RETURN(Tensor there, Tensor::allocate(*gpu_, here.type()));
      TR_RETURN_IF_ERROR(copy_between(*gpu_, here, there));
      places_.push_back({std::move(there),
                         kernel::cuda::lock_pages(*kernel::cuda::as_cuda(gpu_.get()), here.raw(), bytes)});
    }
    return {};
  }
  Tensor memory(std::size_t place) const override { return places_[place].there; }
  Tensor result() const override { return places_[0].there; }
  NamedState state() const override { return host_->state(); }
  const SumStats* stats() const override { return host_->stats(); }

  Task<Status> sum(SumCall call) override {
    const cost::OpCost work{.bytes = static_cast<double>(memory(0).type().num_bytes())};
    Status copied;
    runtime::ComputeFn down = [&](runtime::ComputeContext&) {
      for (std::size_t s = 0; s < places_.size() && copied.ok(); ++s)
        copied = copy_between(*gpu_, places_[s].there, host_->memory(s));
    };
    co_await rt_.compute(work, std::move(down), 1, "gradients to the host");
    TR_CO_RETURN_IF_ERROR(copied);
    TR_CO_RETURN_IF_ERROR(co_await host_->sum(std::move(call)));
    runtime::ComputeFn up = [&](runtime::ComputeContext&) {
      copied = copy_between(*gpu_, host_->result(), places_[0].there);
    };
    co_await rt_.compute(work, std::move(up), 1, "gradients to the GPU");
    co_return copied;
  }

 private:
  struct Place {
    Tensor there;
    std::shared_ptr<void> locked;  // the host's pages
  };
  runtime::Runtime& rt_;
  const std::shared_ptr<Device> gpu_;
  const std::unique_ptr<GradientSum> host_;
  std::vector<Place> places_;
};

class LoneGradients final : public GradientSum {
 public:
  LoneGradients(std::shared_ptr<Device> gpu, std::int64_t num_elems)
      : gpu_(std::move(gpu)), num_elems_(num_elems) {}

  Status take_shards(collective::LeafRun /*run*/) override {
    if (!memory_.is_null()) return {};
    TR_ASSIGN_OR_RETURN(memory_, zeros_on(*gpu_, {DType::kF32, {num_elems_}}));
    return {};
  }
  Tensor memory(std::size_t /*place*/) const override { return memory_; }
  Tensor result() const override { return memory_; }
  Task<Status> sum(SumCall /*call*/) override { co_return Status(); }

 private:
  const std::shared_ptr<Device> gpu_;
  const std::int64_t num_elems_;
  Tensor memory_;
};

}  // namespace

std::unique_ptr<GradientSum> make_device_gradients(std::shared_ptr<DeviceSum> sum, std::size_t vector,
                                                   SumSpec spec) {
  return std::make_unique<DeviceGradients>(std::move(sum), vector, std::move(spec));
}
std::unique_ptr<GradientSum> make_staged_gradients(runtime::Runtime& rt, std::shared_ptr<Device> device,
                                                   std::unique_ptr<GradientSum> host) {
  return std::make_unique<StagedGradients>(rt, std::move(device), std::move(host));
}
std::unique_ptr<GradientSum> make_lone_gradients(std::shared_ptr<Device> device, std::int64_t num_elems) {
  return std::make_unique<LoneGradients>(std::move(device), num_elems);
}

}  // namespace trireme::comm
