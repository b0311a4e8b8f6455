// The GPU of this machine for tests, or a device that only compiles; and one op run on it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/op/forms.h"

namespace trireme::kernel::cuda::test {

struct Gpu {
  std::shared_ptr<CudaDevice> device;  // null: neither GPU nor compiler
  std::string why;                     // there is no GPU
  bool computes() const { return device != nullptr && !device->only_compiles(); }
};
// Opened once per process: contexts are slow to make.
const Gpu& gpu();

// The ops that have no CUDA kernel: second gradients of attention and recurrent networks.
bool is_left_out(const op::OpDef& def);

// Copies between host and device, waiting for them.
Tensor to_device(const Tensor& host);
Tensor to_host(const Tensor& device);

// A row made for these types, run on copies of `inputs`; outputs, then the inputs that the op writes, on the
// host. Outputs are poisoned before the run, and bytes around them and the workspace are watched.
class OnDevice {
 public:
  OnDevice(const op::OpDef& def, const std::vector<TensorType>& inputs, const op::Attrs& attrs,
           bool tf32 = false, const op::Forms& forms = op::plain_forms());
  const Status& status() const { return status_; }  // of choosing and making
  const CudaRow* row() const { return row_; }
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, bool in_place = false) const;

 private:
  const op::OpDef& def_;
  op::Attrs attrs_;
  op::Forms forms_;
  std::vector<TensorType> inputs_, outputs_;
  const CudaRow* row_ = nullptr;
  std::unique_ptr<CudaKernel> kernel_;
  Status status_;
};

}  // namespace trireme::kernel::cuda::test
