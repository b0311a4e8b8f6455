// Kernels chosen and prepared once per (op, types, attributes). Internal to eager.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::eager {

// Immutable: calls under way share it.
struct PreparedKernel {
  op::Attrs attrs;  // complete
  std::vector<TensorType> outputs;
  op::KernelFn run = nullptr;
  std::size_t workspace_bytes = 0;
  std::unique_ptr<op::KernelState> state;
};

class KernelCache {
 public:
  explicit KernelCache(int width) : width_(width) {}
  // As an executor of this width chooses (kernel::choose_cpu_kernel), so the bits are the same.
  Result<std::shared_ptr<const PreparedKernel>> find(const op::OpDef& def, std::span<const TensorType> inputs,
                                                     const op::Attrs& attrs);

 private:
  int width_;
  std::string key_;
  std::unordered_map<std::string, std::shared_ptr<const PreparedKernel>> prepared_;
};

}  // namespace trireme::eager
