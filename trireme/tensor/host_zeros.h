// Memory of zeros that costs nothing until it is touched: who allocates on the loop must not stand still
// there.
#pragma once

#include "trireme/tensor/tensor.h"

namespace trireme {

// Memory of cpu_device(), 64-byte aligned. Large ones are pages that the system clears when they are first
// touched: gigabytes in no time.
Result<Buffer> allocate_host_zeros(std::size_t bytes);

// Makes memory of the host zeros; of its whole pages none is left in memory until they are touched again.
// `bytes` may be any; what allocate_host_zeros gave is private to the process, as this needs.
void give_back_pages(std::byte* first, std::size_t bytes);

// A tensor of zeros on a device of the host or a phantom one.
Result<Tensor> allocate_zeros(Device& device, const TensorType& type);

}  // namespace trireme
