#include "trireme/comm/device/device_sum.h"

#include "trireme/comm/device/device_parts.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

// Steps of the setup slot.
enum SetupStep : std::uint32_t { kGpus, kMap };  // kMap and the two behind it

// Alone and mapped: every rank has the memory of all.
class MappedSum final : public DeviceSumBase {
 public:
  MappedSum(runtime::Runtime& rt, Group& group, const DeviceSumOptions& options, OwnParts own,
            std::vector<Buffer> memories, std::unique_ptr<gpu::VectorSum> kernel)
      : DeviceSumBase(rt, group, options, std::move(own)),
        memories_(std::move(memories)),
        kernel_(std::move(kernel)) {}

  std::string_view method() const override { return group_.world() == 1 ? "alone" : "mapped"; }

 private:
  Task<Status> sum_now(const DeviceCall& call) override {
    std::vector<const float*> inputs;
    std::vector<float*> outputs;
    for (std::size_t r = 0; r < memories_.size(); ++r) {
      const auto at = [&](std::size_t shard) {
        return reinterpret_cast<float*>(memories_[r].data() + own_.layout.at(shard, call.vector));
      };
      outputs.push_back(at(0));
      for (std::int32_t i = 0; i < options_.leaf_runs[r].count; ++i)
        inputs.push_back(at(static_cast<std::size_t>(i)));
    }
    const bool others = group_.world() > 1;
    if (!others && inputs.size() == 1) co_return Status();
    const Chunk part =
        chunk_of(options_.vector_elems[call.vector], sizeof(float), group_.rank(), group_.world());
    if (others) TR_CO_RETURN_IF_ERROR(co_await meet(call, call.ready_slot, "is there"));
    TR_CO_RETURN_IF_ERROR(co_await add(*kernel_, std::move(inputs), std::move(outputs), part));
    if (others) co_return co_await meet(call, call.done_slot, "is summed");
    co_return Status();
  }

  std::byte* message_at(std::size_t shard, std::size_t vector) override {
    return own_.memory.data() + own_.layout.message_at(shard, vector);
  }
  Task<Result<Messages>> trade(const DeviceCall& call) override {
    if (group_.world() > 1) TR_CO_RETURN_IF_ERROR(co_await meet(call, call.ready_slot, "is encoded"));
    Messages all;
    for (std::size_t r = 0; r < memories_.size(); ++r)
      for (std::int32_t i = 0; i < options_.leaf_runs[r].count; ++i)
        all.push_back(memories_[r].data() + own_.layout.message_at(static_cast<std::size_t>(i), call.vector));
    co_return all;
  }
  Task<Status> let_go(const DeviceCall& call) override {
    if (group_.world() > 1) co_return co_await meet(call, call.done_slot, "is decoded");
    co_return Status();
  }

  const std::vector<Buffer> memories_;  // of every rank
  const std::unique_ptr<gpu::VectorSum> kernel_;
};

Task<Result<std::unique_ptr<DeviceSum>>> make_mapped(runtime::Runtime& rt, Group& group,
                                                     const DeviceSumOptions& options) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  OwnParts own;
  std::unique_ptr<gpu::VectorSum> kernel;
  MapRequest request;
  runtime::ComputeFn make = [&](runtime::ComputeContext&) {
    const auto work = [&]() -> Status {
      TR_ASSIGN_OR_RETURN(own.layout, ShardLayout::make(options, options.coding.row != nullptr));
      TR_ASSIGN_OR_RETURN(own.coder, DeviceCoder::make(options, group.rank()));
      const auto shards = options.leaf_runs[static_cast<std::size_t>(group.rank())].count;
      TR_ASSIGN_OR_RETURN(own.memory, gpu::allocate_shareable(
                                          device, own.layout.shard_bytes * static_cast<std::size_t>(shards)));
      const std::vector<gpu::Addition> order = tree_additions({0, options.num_leaves}, options.num_leaves);
      TR_ASSIGN_OR_RETURN(kernel, gpu::make_vector_sum(device, options.num_leaves, order, group.world()));
      return {};
    };
    request.made = work();
  };
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  co_await rt.compute(work, std::move(make), 1, "share GPU memory");
  request.device = options.device;
  request.one_process = options.one_process;
  request.own = own.memory;
  request.slot = options.setup_slot;
  request.first_step = kMap;
  TR_CO_ASSIGN_OR_RETURN(std::vector<Buffer> memories, co_await map_memories(group, std::move(request)));
  co_return std::unique_ptr<DeviceSum>(std::make_unique<MappedSum>(rt, group, options, std::move(own),
                                                                   std::move(memories), std::move(kernel)));
}

}  // namespace

Task<Result<std::unique_ptr<DeviceSum>>> make_device_sum(runtime::Runtime& rt, Group& group,
                                                         DeviceSumOptions options) {
  const bool automatic = options.method == "auto", coded = options.coding.row != nullptr;
  bool nccl = options.method == "nccl";
  if (group.world() == 1 && !nccl) co_return co_await make_mapped(rt, group, options);
  if (coded && options.method == "staged") co_return co_await make_staged_sum(rt, group, options);
  if (automatic && !options.same_bits) {
    TR_CO_ASSIGN_OR_RETURN(
        nccl, co_await have_own_gpus(group, *options.device, options.one_host, options.setup_slot, kGpus));
  }
  const auto give_up = [&](const Status& why, const char* next) {
    rt.log(fmt::format("{}; {}", why.message(), next));
  };
  if (nccl) {
    auto sum = co_await make_nccl_sum(rt, group, options);
    if (sum.ok() || !automatic || !group.verdict().ok()) co_return sum;
    give_up(sum.status(), "gradients are added without NCCL");
  }
  if (options.one_host) {
    auto sum = co_await make_mapped(rt, group, options);
    if (sum.ok() || !automatic || !group.verdict().ok()) co_return sum;
    give_up(sum.status(), "gradients pass through the memory of the host");
  } else if (!automatic) {
    co_return error(
        Code::kInvalid,
        "[comm] parallel.device_collectives = \"mapped\": GPU memory is mapped by ranks of one host, "
        "and these may be on several; use parallel.transport = \"shm\", or auto");
  }
  if (coded) co_return co_await make_staged_sum(rt, group, options);
  co_return std::unique_ptr<DeviceSum>();
}

bool codes_on_device(const codec::Coding& coding) {
  return coding.row != nullptr && has_device_codec(*coding.row);
}

}  // namespace trireme::comm
