// Runs one kernel row, or the reference of its op, on made-up data with poisoned and guarded memory.
#pragma once

#include <memory>
#include <vector>

#include "tests/kernel/cases.h"
#include "trireme/kernel/kernel.h"

namespace trireme::kernel::test {

// A case with its types, before any memory.
struct Problem {
  explicit Problem(const Case& c);
  op::KernelQuery query(int width) const { return {*def, inputs, outputs, attrs, width, forms}; }

  const op::OpDef* def;
  op::Attrs attrs;
  op::Forms forms;
  DType dtype;
  std::vector<TensorType> inputs, outputs;
  std::map<int, Special> special;
};

// Operands: values of few distinct levels, so that ties occur. The same in every floating dtype.
std::vector<Tensor> make_inputs(const Problem& p, DType dtype);

// The outputs, then the inputs that the op writes, as f64.
using Values = std::vector<std::vector<double>>;
Values run_reference(const Problem& p, DType dtype);

// A prepared row. `run` allocates fresh operands and workspace, so that calls may overlap in time.
class Prepared {
 public:
  Prepared(const Problem& problem, const op::KernelRow& row, int width);
  // Fails the current test when bytes outside of the workspace or an output change.
  Values run(op::Parallel& parallel) const;

 private:
  const Problem& problem_;
  const op::KernelRow& row_;
  std::size_t workspace_bytes_;
  std::unique_ptr<op::KernelState> state_;
};

// `width` slices, last one first, on the calling thread.
std::unique_ptr<op::Parallel> make_backwards(int width);
// `width` slices, each on a thread of its own.
std::unique_ptr<op::Parallel> make_threads(int width);

}  // namespace trireme::kernel::test
