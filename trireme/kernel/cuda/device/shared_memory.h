// Memory of a GPU that several processes of one host see (CUDA IPC), and memory of the host that a GPU
// reaches directly, without a CUDA header.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// What a process tells others of an allocation of its own.
struct MemoryHandle {
  std::array<std::byte, 64> bytes{};
};

// Which GPU of the host it is: the same number in every process, another one for every GPU.
Result<std::uint64_t> gpu_number(const CudaDevice& device);

// Memory that can be told to others: an allocation of its own, in whole pages of the GPU, so that nothing
// else is shown with it.
Result<Buffer> allocate_shareable(CudaDevice& device, std::size_t bytes);
// `whole` is what allocate_shareable gave. kUnavailable where the system does not let memory be shared.
Result<MemoryHandle> share_memory(const CudaDevice& device, const Buffer& whole);
// What another process told: not this one, which has the memory already. It is unmapped with the last Buffer;
// its owner keeps it until then. kUnavailable: other namespaces, GPUs that do not reach each other.
Result<Buffer> map_memory(CudaDevice& device, const MemoryHandle& handle, std::size_t bytes);

// Page-locks memory of the host as long as what it returns lives: copies are several times as fast. Null
// where it cannot be, which is no failure.
std::shared_ptr<void> lock_pages(CudaDevice& device, std::byte* memory, std::size_t bytes);

}  // namespace trireme::kernel::cuda
