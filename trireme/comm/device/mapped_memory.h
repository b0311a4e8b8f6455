// Memory of every rank's GPU, seen by all ranks of one host; and what ranks tell each other before. Internal
// to comm.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

// One record of every rank, in rank order: a call of the setup slot.
template <typename T>
runtime::Task<Result<std::vector<T>>> tell(Group& group, std::uint16_t slot, std::uint32_t step, T own) {
  const auto bytes = static_cast<std::int64_t>(sizeof(T));
  TR_CO_ASSIGN_OR_RETURN(const Tensor mine, Tensor::allocate(cpu_device(), {DType::kU8, {bytes}}));
  const TensorType all_type{DType::kU8, {bytes * group.world()}};
  TR_CO_ASSIGN_OR_RETURN(const Tensor all, Tensor::allocate(cpu_device(), all_type));
  std::memcpy(mine.raw(), &own, sizeof(T));
  Call call;
  call.step = step;
  call.slot = slot;
  call.label = "GPU memory";
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), mine, all));
  std::vector<T> out(static_cast<std::size_t>(group.world()));
  std::memcpy(out.data(), all.raw(), out.size() * sizeof(T));
  co_return out;
}

// What went wrong on this rank, agreed on by all: ok where it went right everywhere.
runtime::Task<Status> agree_on(Group& group, std::uint16_t slot, std::uint32_t step, Status own);

struct MapRequest {
  std::shared_ptr<Device> device;
  bool one_process = false;  // ranks are threads of this one
  Buffer own;                // allocate_shareable; null where `made` has failed
  Status made;               // of making it
  std::uint16_t slot = 0;    // of setup; steps first_step to first_step + 2
  std::uint32_t first_step = 0;
};
// Maps nothing that some rank cannot: all ranks get the memory of all, or the same failure.
runtime::Task<Result<std::vector<Buffer>>> map_memories(Group& group, MapRequest request);

// Whether no two ranks have the same GPU. Ranks of several hosts are asked nothing: NCCL itself says so.
runtime::Task<Result<bool>> have_own_gpus(Group& group, Device& device, bool one_host, std::uint16_t slot,
                                          std::uint32_t step);

}  // namespace trireme::comm
