// The method of a DeviceSum by NCCL.
#include <algorithm>

#include "trireme/comm/device/device_parts.h"
#include "trireme/comm/device/nccl_parts.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

std::size_t most_shards(const DeviceSumOptions& options) {
  std::size_t most = 0;
  for (const collective::LeafRun& run : options.leaf_runs)
    most = std::max(most, static_cast<std::size_t>(run.count));
  return most;
}

class NcclSum final : public DeviceSumBase {
 public:
  NcclSum(runtime::Runtime& rt, Group& group, const DeviceSumOptions& options, OwnParts own, Buffer messages,
          std::unique_ptr<gpu::VectorSum> kernel, std::unique_ptr<NcclStream> queue,
          std::unique_ptr<Nccl> nccl)
      : DeviceSumBase(rt, group, options, std::move(own)),
        messages_(std::move(messages)),
        kernel_(std::move(kernel)),
        queue_(std::move(queue)),
        nccl_(std::move(nccl)) {}

  std::string_view method() const override { return "nccl"; }
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
    co_return co_await nccl_->all_reduce(text_of(call), result, collective::Reduction::kSum);
  }

  // NCCL adds halves as halves where every rank has one vector of them.
  bool adds_halves() const { return is_half(*options_.coding.row) && options_.num_leaves == group_.world(); }
  std::string text_of(const DeviceCall& call) const {
    return fmt::format("{}, step {}", call.label, call.step);
  }

  Task<Status> sum_coded(const DeviceCall& call) override {
    if (adds_halves()) return sum_halves(call);
    return DeviceSumBase::sum_coded(call);
  }

  Task<Status> sum_halves(const DeviceCall& call) {
    DeviceCoder& coder = *own_.coder;
    float* const own = values(0, call.vector);
    const HalvesFormat* format = nullptr;
    const auto make = [&]() -> Status {
      TR_ASSIGN_OR_RETURN(format, coder.halves(call.vector));
      TR_RETURN_IF_ERROR(coder.encode_halves(stream_, call.vector, own, messages_.data()));
      return stream_.synchronize();
    };
    const double elems = static_cast<double>(options_.vector_elems[call.vector]);
    const cost::OpCost work{.flops = elems, .bytes = 6 * elems};
    Status done;
    TimeNs began = rt_.now();
    runtime::ComputeFn encode = [&](runtime::ComputeContext&) { done = make(); };
    co_await rt_.compute(work, std::move(encode), 1, "encode on GPU");
    TR_CO_RETURN_IF_ERROR(done);
    coder.stats.encode_ns += rt_.now() - began;
    coder.stats.messages += 1;
    coder.stats.bytes += static_cast<double>(4 * format->num_plain + 2 * format->num_halves);
    TR_CO_RETURN_IF_ERROR(co_await meet(call, call.ready_slot, "is encoded"));
    const TensorType plain{DType::kF32, {format->num_plain}}, halves{format->dtype, {format->num_halves}};
    const auto at = static_cast<std::size_t>(format->halves_at);
    const auto sum = collective::Reduction::kSum;
    if (format->num_plain > 0) {
      const Tensor part(messages_, plain, 0);
      TR_CO_RETURN_IF_ERROR(co_await nccl_->all_reduce(text_of(call), part, sum));
    }
    if (format->num_halves > 0) {
      const Tensor part(messages_, halves, at);
      TR_CO_RETURN_IF_ERROR(co_await nccl_->all_reduce(text_of(call), part, sum));
    }
    began = rt_.now();
    runtime::ComputeFn widen = [&](runtime::ComputeContext&) {
      done = coder.widen(stream_, call.vector, messages_.data(), own);
    };
    co_await rt_.compute(work, std::move(widen), 1, "decode on GPU");
    coder.stats.decode_ns += rt_.now() - began;
    co_return done;
  }

  // Every rank sends as much as the one with most shards, and as long as messages may be.
  std::byte* message_at(std::size_t shard, std::size_t vector) override {
    return messages_.data() + shard * own_.coder->room(vector);
  }
  Task<Result<Messages>> trade(const DeviceCall& call) override {
    TR_CO_RETURN_IF_ERROR(co_await meet(call, call.ready_slot, "is encoded"));
    const std::size_t room = own_.coder->room(call.vector), block = most_shards(options_) * room;
    const auto bytes = static_cast<std::int64_t>(block);
    const Tensor mine(messages_, {DType::kU8, {bytes}}, 0);
    const Tensor all(messages_, {DType::kU8, {bytes * group_.world()}}, block);
    TR_CO_RETURN_IF_ERROR(co_await nccl_->all_gather(text_of(call), mine, all));
    Messages out;
    for (std::size_t r = 0; r < options_.leaf_runs.size(); ++r)
      for (std::int32_t i = 0; i < options_.leaf_runs[r].count; ++i)
        out.push_back(all.raw() + r * block + static_cast<std::size_t>(i) * room);
    co_return out;
  }
  Task<Status> let_go(const DeviceCall&) override { co_return Status(); }

  const Buffer messages_;                         // own ones, then everybody's; null without a codec
  const std::unique_ptr<gpu::VectorSum> kernel_;  // of this rank's shards; null: it has one
  const std::unique_ptr<NcclStream> queue_;
  const std::unique_ptr<Nccl> nccl_;
};

}  // namespace

Task<Result<std::unique_ptr<DeviceSum>>> make_nccl_sum(runtime::Runtime& rt, Group& group,
                                                       const DeviceSumOptions& options) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  const collective::LeafRun run = options.leaf_runs[static_cast<std::size_t>(group.rank())];
  OwnParts own;
  Buffer messages;
  std::unique_ptr<gpu::VectorSum> kernel;
  const auto make = [&]() -> Status {
    TR_ASSIGN_OR_RETURN(own.layout, ShardLayout::make(options, false));
    TR_ASSIGN_OR_RETURN(own.coder, DeviceCoder::make(options, group.rank()));
    const std::size_t bytes = own.layout.shard_bytes * static_cast<std::size_t>(run.count);
    TR_ASSIGN_OR_RETURN(own.memory, options.device->allocate(bytes));
    if (own.coder != nullptr) {
      const auto blocks = static_cast<std::size_t>(group.world() + 1);
      TR_ASSIGN_OR_RETURN(
          messages, options.device->allocate(blocks * most_shards(options) * own.coder->largest_room()));
    }
    if (run.count == 1) return {};
    const std::vector<gpu::Addition> order = tree_additions(run, options.num_leaves);
    TR_ASSIGN_OR_RETURN(kernel, gpu::make_vector_sum(device, run.count, order, 1));
    return {};
  };
  NcclSetup setup;
  setup.device = options.device;
  setup.library = options.nccl_library;
  setup.slot = options.setup_slot;
  setup.deadline = options.deadline;
  setup.made = make();
  TR_CO_ASSIGN_OR_RETURN(NcclLink link, co_await connect_nccl(rt, group, std::move(setup)));
  co_return std::unique_ptr<DeviceSum>(
      std::make_unique<NcclSum>(rt, group, options, std::move(own), std::move(messages), std::move(kernel),
                                std::move(link.queue), std::move(link.nccl)));
}

}  // namespace trireme::comm
