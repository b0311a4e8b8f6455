// Copies on the host of what a host op beside a GPU reads and writes. Internal to exec.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/tensor/tensor.h"

namespace trireme::exec {

struct HostOperands {
  std::vector<Tensor> in, out;
};

// Memory for them, page-locked where the driver has some, so that copies run at the rate of the bus. What was
// given back is used again: after a few runs nothing is allocated. On the loop.
class OperandMemory {
 public:
  explicit OperandMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Result<Tensor> take(const TensorType& type);
  // Tensors that are not of here are left alone.
  void give_back(const HostOperands& operands);

 private:
  const std::shared_ptr<Device> device_;
  std::multimap<std::size_t, Buffer> free_;  // by size
  std::map<const std::byte*, Buffer> taken_;
};

}  // namespace trireme::exec
