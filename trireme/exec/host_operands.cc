#include "trireme/exec/host_operands.h"

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {

Result<Tensor> OperandMemory::take(const TensorType& type) {
  const std::size_t bytes = type.num_bytes();
  Buffer memory;
  if (const auto fits = free_.lower_bound(bytes); fits != free_.end() && fits->first / 2 <= bytes) {
    memory = std::move(fits->second);
    free_.erase(fits);
  } else if (auto locked = kernel::cuda::allocate_pinned(*kernel::cuda::as_cuda(device_.get()), bytes);
             locked.ok()) {
    memory = std::move(*locked);
  } else {
    return Tensor::allocate(cpu_device(), type);
  }
  Tensor out(memory.slice(0, bytes), type);
  taken_.emplace(memory.data(), std::move(memory));
  return out;
}

void OperandMemory::give_back(const HostOperands& operands) {
  for (const std::vector<Tensor>* tensors : {&operands.in, &operands.out})
    for (const Tensor& t : *tensors)
      if (const auto at = taken_.find(t.raw()); at != taken_.end()) {
        free_.emplace(at->second.size_bytes(), std::move(at->second));
        taken_.erase(at);
      }
}

}  // namespace trireme::exec
