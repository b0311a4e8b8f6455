// What cuda.h promises, in a build without CUDA.
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

namespace {
Status no_cuda() {
  return Status(
      Code::kUnavailable,
      "[cuda] this build has no CUDA: the headers of CUDA 13 and cuDNN 9 were not found when it was made; "
      "install them and build again, or train with --device cpu");
}
}  // namespace

Result<std::shared_ptr<CudaDevice>> open_device(int) { return no_cuda(); }
CudaDevice* as_cuda(Device*) { return nullptr; }
Device& as_device(CudaDevice&) { return cpu_device(); }
std::size_t peak_bytes(const CudaDevice&) { return 0; }
PeakRates peak_rates(const CudaDevice&, std::string_view) { return {}; }
std::span<const CudaRow> cuda_kernels() { return {}; }
Result<const CudaRow*> choose_cuda_kernel(const CudaQuery&, std::string_view) { return no_cuda(); }
bool has_algorithms(const op::OpDef&) { return false; }
Result<AlgorithmTimes> time_algorithms(const CudaQuery&, const CudaRow&, int) { return no_cuda(); }
std::optional<RecurrentReserve> recurrent_reserve(const CudaQuery&) { return {}; }
bool recurrence_fits(const CudaQuery&) { return false; }
Result<double> launch_ns(CudaDevice&) { return no_cuda(); }
std::unique_ptr<KernelStream> make_kernel_stream(CudaDevice&) { return nullptr; }
Result<std::uint64_t> gpu_number(const CudaDevice&) { return no_cuda(); }
Result<Buffer> allocate_shareable(CudaDevice&, std::size_t) { return no_cuda(); }
Result<MemoryHandle> share_memory(const CudaDevice&, const Buffer&) { return no_cuda(); }
std::shared_ptr<void> lock_pages(CudaDevice&, std::byte*, std::size_t) { return nullptr; }
Result<Buffer> map_memory(CudaDevice&, const MemoryHandle&, std::size_t) { return no_cuda(); }
Result<std::unique_ptr<VectorSum>> make_vector_sum(CudaDevice&, int, std::span<const Addition>, int, bool) {
  return no_cuda();
}
Result<std::unique_ptr<MessageCoder>> make_message_coder(CudaDevice&, const MessageFormat&, int,
                                                         std::span<const Addition>) {
  return no_cuda();
}

MemoryInfo memory_info(const CudaDevice&) { return {}; }
Result<Buffer> allocate_pinned(CudaDevice&, std::size_t) { return no_cuda(); }

std::string cuda_kernel_library(const CudaDevice&) { return "none"; }

}  // namespace trireme::kernel::cuda
