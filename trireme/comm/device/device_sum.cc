#include "trireme/comm/device/device_sum.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/device/device_parts.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

// Steps of the setup slot.
enum SetupStep : std::uint32_t { kGpus, kTell, kMap, kUseMapped };

// What a rank tells the others about itself.
struct Told {
  std::uint64_t gpu = 0;
  std::uint64_t address = 0;  // of its memory, for ranks of one process
  gpu::MemoryHandle handle;   // for those of others
};

// One record of every rank, in rank order.
template <typename T>
Task<Result<std::vector<T>>> tell(Group& group, const DeviceSumOptions& options, std::uint32_t step, T own) {
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  TR_CO_ASSIGN_OR_RETURN(const Tensor mine, Tensor::allocate(cpu_device(), {DType::kU8, {bytes}}));
  const TensorType all_type{DType::kU8, {bytes * group.world()}};
  TR_CO_ASSIGN_OR_RETURN(const Tensor all, Tensor::allocate(cpu_device(), all_type));
  std::memcpy(mine.raw(), &own, sizeof(T));
  Call call;
  call.step = step;
  call.slot = options.setup_slot;
  call.label = "GPU memory";
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), mine, all));
  std::vector<T> out(static_cast<std::size_t>(group.world()));
  std::memcpy(out.data(), all.raw(), out.size() * sizeof(T));
  co_return out;
}

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

std::size_t bytes_of(const DeviceSumOptions& options, const ShardLayout& layout, int rank) {
  return layout.shard_bytes *
         static_cast<std::size_t>(options.leaf_runs[static_cast<std::size_t>(rank)].count);
}

// This rank's memory, and what the others must know of it.
Status make_own(const DeviceSumOptions& options, int rank, int world, OwnParts& own, Told& told) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  TR_ASSIGN_OR_RETURN(own.layout, ShardLayout::make(options, options.coding.row != nullptr));
  TR_ASSIGN_OR_RETURN(own.coder, DeviceCoder::make(options, rank));
  TR_ASSIGN_OR_RETURN(own.memory, gpu::allocate_shareable(device, bytes_of(options, own.layout, rank)));
  told.address = reinterpret_cast<std::uint64_t>(own.memory.data());
  if (options.one_process || world == 1) return {};
  TR_ASSIGN_OR_RETURN(told.handle, gpu::share_memory(device, own.memory));
  return {};
}

Status map_others(const DeviceSumOptions& options, const OwnParts& own, int rank,
                  const std::vector<Told>& told, std::vector<Buffer>& memories) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  for (std::size_t r = 0; r < told.size(); ++r) {
    if (static_cast<int>(r) == rank) continue;
    const std::size_t bytes = bytes_of(options, own.layout, static_cast<int>(r));
    if (options.one_process) {
      memories[r] = Buffer::wrap(*options.device, reinterpret_cast<std::byte*>(told[r].address), bytes);
      continue;
    }
    TR_ASSIGN_OR_RETURN(memories[r], gpu::map_memory(device, told[r].handle, bytes));
  }
  return {};
}

// Maps nothing that some rank cannot: all ranks get the memory of all, or the same failure.
Task<Result<std::unique_ptr<DeviceSum>>> make_mapped(runtime::Runtime& rt, Group& group,
                                                     const DeviceSumOptions& options) {
  const int rank = group.rank(), world = group.world();
  std::vector<Buffer> memories(static_cast<std::size_t>(world));
  Told told_own;
  OwnParts own;
  std::unique_ptr<gpu::VectorSum> kernel;
  Status made;
  runtime::ComputeFn make = [&](runtime::ComputeContext&) {
    const auto work = [&]() -> Status {
      TR_RETURN_IF_ERROR(make_own(options, rank, world, own, told_own));
      const std::vector<gpu::Addition> order = tree_additions({0, options.num_leaves}, options.num_leaves);
      TR_ASSIGN_OR_RETURN(kernel, gpu::make_vector_sum(*gpu::as_cuda(options.device.get()),
                                                       options.num_leaves, order, world));
      return {};
    };
    made = work();
  };
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  co_await rt.compute(work, std::move(make), 1, "share GPU memory");
  if (world > 1) {
    TR_CO_RETURN_IF_ERROR(co_await agree_on(group, options, kMap, made));
    TR_CO_ASSIGN_OR_RETURN(const std::vector<Told> told, co_await tell(group, options, kTell, told_own));
    const Status mapped = map_others(options, own, rank, told, memories);
    TR_CO_RETURN_IF_ERROR(co_await agree_on(group, options, kUseMapped, mapped));
  }
  TR_CO_RETURN_IF_ERROR(made);
  memories[static_cast<std::size_t>(rank)] = own.memory;
  co_return std::unique_ptr<DeviceSum>(std::make_unique<MappedSum>(rt, group, options, std::move(own),
                                                                   std::move(memories), std::move(kernel)));
}

// Whether no two ranks have the same GPU. Ranks of several hosts are asked nothing: NCCL itself says so.
Task<Result<bool>> have_own_gpus(Group& group, const DeviceSumOptions& options) {
  if (!options.one_host) co_return true;
  TR_CO_ASSIGN_OR_RETURN(const std::uint64_t mine, gpu::gpu_number(*gpu::as_cuda(options.device.get())));
  TR_CO_ASSIGN_OR_RETURN(std::vector<std::uint64_t> all, co_await tell(group, options, kGpus, mine));
  std::sort(all.begin(), all.end());
  co_return std::adjacent_find(all.begin(), all.end()) == all.end();
}

}  // namespace

Task<Result<std::unique_ptr<DeviceSum>>> make_device_sum(runtime::Runtime& rt, Group& group,
                                                         DeviceSumOptions options) {
  const bool automatic = options.method == "auto", coded = options.coding.row != nullptr;
  bool nccl = options.method == "nccl";
  if (group.world() == 1 && !nccl) co_return co_await make_mapped(rt, group, options);
  if (coded && options.method == "staged") co_return co_await make_staged_sum(rt, group, options);
  if (automatic && !options.same_bits) {
    TR_CO_ASSIGN_OR_RETURN(nccl, co_await have_own_gpus(group, options));
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
