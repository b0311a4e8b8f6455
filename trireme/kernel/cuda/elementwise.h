// Loops over elements: one kernel text that reads every input once, computes in registers and writes every
// output once. Single elementwise ops, fused groups and all ops that only move elements are such loops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/expressions.h"

namespace trireme::kernel::cuda {

// Part of an index: `size` values, `stride` elements apart in memory. A stride of 0 repeats, a negative one
// runs backwards from the far end (the address stays that of the lowest element).
struct StridedDim {
  std::int64_t size, stride;
};

// Where element i of the loop (row-major over the dims, outermost first) lies in memory.
struct StridedView {
  Scalar scalar;
  std::vector<StridedDim> dims;
};
StridedView flat_view(const Scalar& scalar, std::int64_t n);
// `shape` under NumPy broadcasting to `loop`.
StridedView broadcast_view(const Scalar& scalar, const Shape& shape, const Shape& loop);

// Registers as in op/fused/program.h: inputs first, then the results of steps.
struct LoopStep {
  std::string body;  // of a function of the operands a, b, c
  std::vector<int> operands;
  Scalar result;
};
struct ElementwiseLoop {
  std::int64_t n = 0;  // elements
  std::vector<StridedView> inputs = {};
  std::vector<LoopStep> steps = {};
  struct Output {
    int from;        // a register
    StridedView to;  // no element twice
  };
  std::vector<Output> outputs = {};
};

// Texts of steps: their functions; then, where r0... are the inputs, calls that give every step its result in
// registers (r) and as it goes to memory (m), rounded once; and what output k is of those.
std::string step_functions(const ElementwiseLoop& loop);
std::string step_calls(const ElementwiseLoop& loop);
std::string result_text(const ElementwiseLoop& loop, std::size_t k);

// A compiled loop. Empty where there is nothing to do.
class LoopKernel {
 public:
  // Inputs, then outputs. An output may be an input of the same view.
  Status run(CudaStream& stream, std::span<std::byte* const> pointers) const;

 private:
  friend Result<LoopKernel> make_loop(CudaDevice& device, const ElementwiseLoop& loop);
  const Function* function_ = nullptr;
  std::int64_t n_ = 0;
  bool narrow_ = true;  // 32-bit indices
  unsigned blocks_ = 0;
  std::vector<unsigned> alignments_;  // bytes, per pointer, for whole vectors; 0: any
};
Result<LoopKernel> make_loop(CudaDevice& device, const ElementwiseLoop& loop);

// The loop of a node with a program (op/fused/program.h).
struct CudaQuery;
Result<ElementwiseLoop> loop_of_program(const CudaQuery& query);

// A loop that writes output 0 from the inputs as they are.
Result<std::unique_ptr<CudaKernel>> make_loop_kernel(CudaDevice& device, const ElementwiseLoop& loop);
std::unique_ptr<CudaKernel> make_nothing();

}  // namespace trireme::kernel::cuda
