// The way of a DeviceSum by NCCL.
#include <algorithm>
#include <cstring>

#include "trireme/comm/device_parts.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

// Steps of the setup slot, beside those of device_sum.cc.
enum SetupStep : std::uint32_t { kLoad = 16, kId, kConnect };

class SessionQueue final : public DeviceQueue {
 public:
  explicit SessionQueue(gpu::CudaDevice& device) : session_(device) {}
  void enter() override { session_.enter(); }
  void* stream() override { return session_.raw_stream(); }
  std::shared_ptr<Event> record() override { return session_.record(); }
  Status finish() override { return session_.synchronize(); }

 private:
  gpu::Session session_;
};

class NcclSum final : public DeviceSumBase {
 public:
  NcclSum(runtime::Runtime& rt, Group& group, const DeviceSumOptions& options, Buffer memory,
          std::unique_ptr<gpu::VectorSum> kernel, std::unique_ptr<SessionQueue> queue,
          std::unique_ptr<Nccl> nccl)
      : DeviceSumBase(rt, group, options, std::move(memory)),
        kernel_(std::move(kernel)),
        queue_(std::move(queue)),
        nccl_(std::move(nccl)) {}

  std::string_view way() const override { return "nccl"; }
  Task<Status> close() override { return nccl_->close(); }
  std::shared_ptr<void> keep_mapped() const override { return nullptr; }

 private:
  Task<Status> sum_now(const DeviceCall& call) override {
    const Tensor result = memory(0, call.vector);
    if (kernel_ != nullptr) {
      std::vector<const float*> inputs;
      for (std::int32_t i = 0; i < own_run().count; ++i)
        inputs.push_back(
            reinterpret_cast<const float*>(memory(static_cast<std::size_t>(i), call.vector).raw()));
      std::vector<float*> outputs = {reinterpret_cast<float*>(result.raw())};
      const Chunk all{0, options_.vector_elems[call.vector]};
      TR_CO_RETURN_IF_ERROR(co_await add(*kernel_, std::move(inputs), std::move(outputs), all));
    }
    // Others may compute for as long as they need; from here on all are there.
    TR_CO_RETURN_IF_ERROR(co_await meet(call, call.ready_slot, "is there"));
    std::string label = fmt::format("{}, step {}", call.label, call.step);
    co_return co_await nccl_->all_reduce(std::move(label), result, collective::Reduction::kSum);
  }

  const std::unique_ptr<gpu::VectorSum> kernel_;  // of this rank's shards; null: it has one
  const std::unique_ptr<SessionQueue> queue_;
  const std::unique_ptr<Nccl> nccl_;
};

Task<Result<NcclId>> share_id(Group& group, const DeviceSumOptions& options, const NcclLibrary& library) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor word, Tensor::allocate(cpu_device(), {DType::kU8, {sizeof(NcclId)}}));
  NcclId id;
  if (group.rank() == 0) {
    TR_CO_ASSIGN_OR_RETURN(id, Nccl::make_id(library));
    std::memcpy(word.raw(), &id, sizeof id);
  }
  Call call;
  call.step = kId;
  call.slot = options.setup_slot;
  call.label = "NCCL's id";
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(std::move(call), word));
  std::memcpy(&id, word.raw(), sizeof id);
  co_return id;
}

}  // namespace

Task<Result<std::unique_ptr<DeviceSum>>> make_nccl_sum(runtime::Runtime& rt, Group& group,
                                                       const DeviceSumOptions& options) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  const collective::LeafRun run = options.leaf_runs[static_cast<std::size_t>(group.rank())];
  Buffer memory;
  std::unique_ptr<gpu::VectorSum> kernel;
  const auto make = [&]() -> Status {
    const ShardLayout layout(options.vector_elems);
    TR_ASSIGN_OR_RETURN(memory,
                        options.device->allocate(layout.shard_bytes * static_cast<std::size_t>(run.count)));
    if (run.count == 1) return {};
    const std::vector<gpu::Addition> order = tree_additions(run, options.num_leaves);
    TR_ASSIGN_OR_RETURN(kernel, gpu::make_vector_sum(device, run.count, order, 1));
    return {};
  };
  const Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::load(options.nccl_library);
  Status made = library.status();
  if (made.ok()) made = make();
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, options, kLoad, made));
  TR_CO_ASSIGN_OR_RETURN(const NcclId id, co_await share_id(group, options, **library));
  auto queue = std::make_unique<SessionQueue>(device);
  NcclOptions how;
  how.rank = group.rank();
  how.world = group.world();
  how.deadline = std::max(options.deadline, 30 * kSecond);  // it looks at the whole machine first
  how.verdict = [&group] { return group.verdict(); };
  auto nccl = co_await Nccl::connect(rt, *library, id, *queue, std::move(how));
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, options, kConnect, nccl.status()));
  (*nccl)->set_deadline(options.deadline);
  co_return std::unique_ptr<DeviceSum>(std::make_unique<NcclSum>(
      rt, group, options, std::move(memory), std::move(kernel), std::move(queue), std::move(*nccl)));
}

}  // namespace trireme::comm
