// CUDA as the rest of the system sees it: opening a device, choosing kernels. No CUDA header is needed here,
// and the functions exist in every build: where the build or the machine has no CUDA they say what is
// missing.
//
// Libraries (driver, NVRTC, cuBLASLt, cuDNN) are loaded when a device is opened, so that one binary runs with
// and without them. See docs/decisions/008-cuda.md.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trireme/op/op.h"

namespace trireme::kernel::cuda {

class CudaDevice;  // device.h
class CudaStream;

// Opens GPU `ordinal` of this machine, counted round: ranks beyond the number of GPUs share them.
// kUnavailable: no driver, no GPU, a library that is missing (by name).
Result<std::shared_ptr<CudaDevice>> open_device(int ordinal);
// `device` as what it is; null where it is another kind.
CudaDevice* as_cuda(Device* device);
Device& as_device(CudaDevice& device);

std::size_t peak_bytes(const CudaDevice& device);  // the most that was allocated at once

// What is known when a kernel is chosen.
struct CudaQuery {
  const op::OpDef& def;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  const op::Attrs& attrs;
  CudaDevice& device;
  bool tf32 = false;  // f32 products may round their operands to 10 bits of mantissa
  // Operands of four dimensions lie in memory as [N,H,W,C] (filters as [O,KH,KW,C]); their types stay
  // [N,C,H,W].
  bool channels_last = false;
  // Of those that a library has for the op: 0 is the first of its heuristics that can be used, i > 0 the one
  // that they name after i others. A kernel that cannot use it is not made: kNotFound where the list is
  // shorter.
  int algorithm = 0;
};

// A kernel as plans name it: its row, and the algorithm where it is not 0 ("cublaslt/3").
inline std::string kernel_name(std::string_view row, int algorithm) {
  return algorithm == 0 ? std::string(row) : std::string(row) + "/" + std::to_string(algorithm);
}
inline std::string_view row_of(std::string_view kernel) { return kernel.substr(0, kernel.find('/')); }
inline int algorithm_of(std::string_view kernel) {
  const std::size_t slash = kernel.find('/');
  return slash == std::string_view::npos ? 0 : std::atoi(std::string(kernel.substr(slash + 1)).c_str());
}

// Operands of one call: row-major device memory. Mutated inputs and outputs as op::KernelArgs has them.
struct CudaArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::byte* workspace;  // device memory, 256-byte aligned, contents undefined
  CudaStream& stream;

  const Tensor& in(int i) const { return inputs[static_cast<std::size_t>(i)]; }
  const Tensor& out(int i) const { return outputs[static_cast<std::size_t>(i)]; }
};

// A kernel made for one node: everything that depends on shapes and attributes is settled when it is made.
// Enqueueing only puts work on the stream: no synchronisation, no allocation, no host copy of values, so that
// it can be captured into a graph and replayed. The same inputs give the same bits: no atomics on floats.
class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual Status enqueue(const CudaArgs& args) const = 0;
  // Small kernels of one kind in one launch: kernels[i] on args[i], none of which needs another's results.
  // Called on the first, for kernels that all go with it.
  virtual bool goes_with(const CudaKernel&) const { return false; }
  virtual Status enqueue_all(std::span<const CudaKernel* const> kernels,
                             std::span<const CudaArgs> args) const {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (Status status = kernels[i]->enqueue(args[i]); !status.ok()) return status;
    }
    return {};
  }
};

struct CudaRow {
  const char* op;
  const char* name;  // "nvrtc", "cudnn", "cublaslt": stable, written to plans
  Result<std::unique_ptr<CudaKernel>> (*make)(const CudaQuery&);
  bool (*applicable)(const CudaQuery&) = nullptr;  // null: always
  // Takes operands of other floating dtypes than the op would have (op `adapted`), and computes as if they
  // were cast.
  bool adaptable = false;
  bool channels_last = false;  // takes queries that say so
};

// All rows, fastest first for each op. Empty in a build without CUDA.
std::span<const CudaRow> cuda_kernels();
// The row of the kernel named `wanted`, or the first applicable one. There is no reference on the device:
// kNotFound names the op and the dtypes that have no kernel.
Result<const CudaRow*> choose_cuda_kernel(const CudaQuery& query, std::string_view wanted = "");
// For plans and `version`: "driver=13.0 nvrtc=13.0 cublaslt=13.1 cudnn=9.14 device=NVIDIA H200", or why there
// is none.
std::string cuda_kernel_library(const CudaDevice& device);

}  // namespace trireme::kernel::cuda
