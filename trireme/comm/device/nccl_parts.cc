#include "trireme/comm/device/nccl_parts.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/device/mapped_memory.h"

namespace trireme::comm {

using runtime::Task;

namespace {

// Steps of the setup slot, beside those of other ways.
enum SetupStep : std::uint32_t { kLoad = 16, kId, kConnect };

Task<Result<NcclId>> share_id(Group& group, std::uint16_t slot, const NcclLibrary& library) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor word, Tensor::allocate(cpu_device(), {DType::kU8, {sizeof(NcclId)}}));
  NcclId id;
  if (group.rank() == 0) {
    TR_CO_ASSIGN_OR_RETURN(id, Nccl::make_id(library));
    std::memcpy(word.raw(), &id, sizeof id);
  }
  Call call;
  call.step = kId;
  call.slot = slot;
  call.label = "NCCL's id";
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(std::move(call), word));
  std::memcpy(&id, word.raw(), sizeof id);
  co_return id;
}

}  // namespace

Task<Result<NcclLink>> connect_nccl(runtime::Runtime& rt, Group& group, NcclSetup setup) {
  const Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::load(setup.library);
  const Status made = library.ok() ? setup.made : library.status();
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, setup.slot, kLoad, made));
  TR_CO_ASSIGN_OR_RETURN(const NcclId id, co_await share_id(group, setup.slot, **library));
  NcclLink link;
  link.queue = std::make_unique<NcclStream>(*kernel::cuda::as_cuda(setup.device.get()));
  NcclOptions how;
  how.rank = group.rank();
  how.world = group.world();
  how.deadline = std::max(setup.deadline, 30 * kSecond);  // it looks at the whole machine first
  how.verdict = [&group] { return group.verdict(); };
  auto nccl = co_await Nccl::connect(rt, *library, id, *link.queue, std::move(how));
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, setup.slot, kConnect, nccl.status()));
  (*nccl)->set_deadline(setup.deadline);
  link.nccl = std::move(*nccl);
  co_return link;
}

}  // namespace trireme::comm
