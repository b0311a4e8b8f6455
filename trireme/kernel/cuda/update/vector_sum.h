// Sums of f32 vectors on a GPU in a given order of addition, without a CUDA header.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

class Session;

// Operands below the number of inputs are inputs; operand `inputs + k` is the result of addition k.
struct Addition {
  int left = 0, right = 0;
};

class VectorSum {
 public:
  // Inputs and outputs together; more do not fit into the arguments of a kernel.
  static constexpr int kMostVectors = 480;

  virtual ~VectorSum() = default;
  // outputs[k][i] = the last addition, for begin <= i < end and every k. An output may be an input. Vectors
  // are aligned to 16 bytes and `begin` is a multiple of 4.
  virtual Status enqueue(Session& session, std::span<const float* const> inputs,
                         std::span<float* const> outputs, std::int64_t begin, std::int64_t end) const = 0;
};

// Without additions: a copy of the one input.
Result<std::unique_ptr<VectorSum>> make_vector_sum(CudaDevice& device, int num_inputs,
                                                   std::span<const Addition> additions, int num_outputs);

}  // namespace trireme::kernel::cuda
