#include "trireme/comm/device/mapped_memory.h"

#include <algorithm>

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

// What a rank tells the others about its memory.
struct Told {
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // for ranks of one process
  gpu::MemoryHandle handle;   // for those of others
};

Result<Told> describe(const MapRequest& request, int world) {
  Told told;
  told.bytes = request.own.size_bytes();
  told.address = reinterpret_cast<std::uint64_t>(request.own.data());
  if (request.one_process || world == 1) return told;
  TR_ASSIGN_OR_RETURN(told.handle, gpu::share_memory(*gpu::as_cuda(request.device.get()), request.own));
  return told;
}

Status map_others(const MapRequest& request, int rank, const std::vector<Told>& told,
                  std::vector<Buffer>& memories) {
  gpu::CudaDevice& device = *gpu::as_cuda(request.device.get());
  for (std::size_t r = 0; r < told.size(); ++r) {
    const std::size_t bytes = told[r].bytes;
    if (static_cast<int>(r) == rank) {
      memories[r] = request.own;
    } else if (request.one_process) {
      memories[r] = Buffer::wrap(*request.device, reinterpret_cast<std::byte*>(told[r].address), bytes);
    } else {
      TR_ASSIGN_OR_RETURN(memories[r], gpu::map_memory(device, told[r].handle, bytes));
    }
  }
  return {};
}

}  // namespace

Task<Status> agree_on(Group& group, std::uint16_t slot, std::uint32_t step, Status own) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor worst, Tensor::allocate(cpu_device(), {DType::kF32, {1}}));
  *worst.data<float>() = own.ok() ? 0.0F : static_cast<float>(group.rank() + 1);
  Call call;
  call.step = step;
  call.slot = slot;
  call.label = "GPU collectives";
  call.reduction = collective::Reduction::kMax;
  TR_CO_RETURN_IF_ERROR(co_await group.allreduce(std::move(call), worst));
  const int culprit = static_cast<int>(*worst.data<float>()) - 1;
  if (culprit < 0 || !own.ok()) co_return own;
  co_return error(Code::kUnavailable, "[comm] rank {} cannot; its log says why", culprit);
}

Task<Result<std::vector<Buffer>>> map_memories(Group& group, MapRequest request) {
  std::vector<Buffer> memories(static_cast<std::size_t>(group.world()));
  Told own;
  if (request.made.ok()) {
    const Result<Told> described = describe(request, group.world());
    if (described.ok()) own = *described;
    request.made = described.status();
  }
  if (group.world() == 1) {
    memories[0] = request.own;
    if (!request.made.ok()) co_return request.made;
    co_return memories;
  }
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, request.slot, request.first_step, request.made));
  TR_CO_ASSIGN_OR_RETURN(const std::vector<Told> told,
                         co_await tell(group, request.slot, request.first_step + 1, own));
  const Status mapped = map_others(request, group.rank(), told, memories);
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, request.slot, request.first_step + 2, mapped));
  co_return memories;
}

Task<Result<bool>> have_own_gpus(Group& group, Device& device, bool one_host, std::uint16_t slot,
                                 std::uint32_t step) {
  if (!one_host) co_return true;
  TR_CO_ASSIGN_OR_RETURN(const std::uint64_t mine, gpu::gpu_number(*gpu::as_cuda(&device)));
  TR_CO_ASSIGN_OR_RETURN(std::vector<std::uint64_t> all, co_await tell(group, slot, step, mine));
  std::sort(all.begin(), all.end());
  co_return std::adjacent_find(all.begin(), all.end()) == all.end();
}

}  // namespace trireme::comm
