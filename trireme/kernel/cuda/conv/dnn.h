// Graphs of cuDNN operations, planned once and run many times: a thin layer over cuDNN's backend API.
//
// A DnnGraph collects tensors and operations; plans() asks cuDNN's heuristics for engines, drops those whose
// results change from run to run or are less precise than asked for, and makes the rest into DnnPlans. A
// failing call is kept and comes out of plans(), so that building reads as a list of operations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

using Dims = std::vector<std::int64_t>;
Dims row_major(const Dims& dims);      // strides
Dims channels_last(const Dims& dims);  // strides of [N, C, H, W] kept as N, H, W, C

// One descriptor of the backend, destroyed with its owner.
class DnnDescriptor {
 public:
  DnnDescriptor(const Libraries& lib, cudnnBackendDescriptorType_t type);
  DnnDescriptor(DnnDescriptor&& other) noexcept;
  DnnDescriptor& operator=(DnnDescriptor&&) = delete;
  ~DnnDescriptor();

  // After a failure nothing happens any more; status() keeps it.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set_ints(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set_descriptor(cudnnBackendAttributeName_t name, const DnnDescriptor& value);
  template <typename T>
  void set_one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void finalize();
  void get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
           std::int64_t* count, void* values);
  const Status& status() const { return status_; }
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  void note(cudnnStatus_t result);
  const Libraries* lib_;
  cudnnBackendDescriptor_t raw_ = nullptr;
  Status status_;
};

// Who plans: a handle, or the properties of a GPU that need not be here.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const DnnDescriptor* properties = nullptr;
};

struct DnnOptions {
  bool full_f32 = false;  // f32 operands keep all their bits: no tensor cores
  std::size_t most_workspace_bytes = std::size_t{1} << 31U;
  int most = 1;       // plans to make, in cuDNN's order
  int algorithm = 0;  // > 0: only the one that cuDNN names after so many others
};

struct DnnBinding {
  std::int64_t tensor;  // what DnnGraph::tensor gave
  void* address;        // of device memory; of host memory for scalars
};

// Const after it is made. Several threads may run one plan, each on its own stream.
class DnnPlan {
 public:
  DnnPlan(const Libraries& lib, DnnDescriptor plan, std::size_t workspace_bytes);
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  Status enqueue(CudaStream& stream, std::span<const DnnBinding> tensors, std::byte* workspace) const;

 private:
  const Libraries* lib_;
  DnnDescriptor plan_;
  std::size_t workspace_bytes_;
};

struct DnnWindow {  // per side: rows, columns
  Dims strides{1, 1}, pads_before{0, 0}, pads_after{0, 0}, dilations{1, 1};
};
enum class DnnPass : std::uint8_t { forward, input_grad, filter_grad };

class DnnGraph {
 public:
  explicit DnnGraph(const Libraries& lib) : lib_(lib) {}

  // Each gives the tensor's name in this graph and in bindings.
  std::int64_t tensor(DType dtype, const Dims& dims, const Dims& strides);
  std::int64_t between(cudnnDataType_t dtype, const Dims& dims, const Dims& strides);  // never in memory
  std::int64_t scalar(int rank);  // one f32 in host memory at each run

  // x, filter, y: operands of the convolution whose pass it is. Groups follow from the channels.
  void convolution(DnnPass pass, std::int64_t x, std::int64_t filter, std::int64_t y, const DnnWindow& window,
                   DType compute);
  // y = mode(x) or mode(x, b) or, for selection, t ? x : b. Indices are counted along `axis`.
  void pointwise(cudnnPointwiseMode_t mode, std::span<const std::int64_t> inputs, std::int64_t y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, std::int64_t axis = -1);
  void matmul(std::int64_t a, std::int64_t b, std::int64_t c);
  void reduction(cudnnReduceTensorOp_t mode, std::int64_t x, std::int64_t y);
  void reshape(std::int64_t x, std::int64_t y);

  // At least one plan, or why there is none (kUnavailable).
  Result<std::vector<std::shared_ptr<const DnnPlan>>> plans(const DnnTarget& target,
                                                            const DnnOptions& options);

 private:
  DnnDescriptor& add(cudnnBackendDescriptorType_t type);
  std::int64_t add_tensor(cudnnDataType_t dtype, const Dims& dims, const Dims& strides, bool is_virtual,
                          bool by_value);
  void add_operation(DnnDescriptor& operation);
  Status first_failure() const;

  const Libraries& lib_;
  std::vector<std::unique_ptr<DnnDescriptor>> all_;
  std::vector<DnnDescriptor*> tensors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace trireme::kernel::cuda
