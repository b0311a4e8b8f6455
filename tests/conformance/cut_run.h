// What OpDef::cut says, run for all positions of an axis at once: one little program per position with the
// same structure, node after node in lock step, on reference kernels and, for collectives, on exchange.h.
#pragma once

#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::testing {

// A call that is cut over `num_parts` positions.
struct CutCall {
  const OpDef& def;
  const Attrs& attrs;                       // completed, of the op on whole operands
  std::vector<TensorType> inputs, outputs;  // whole
  LayoutOption option;
  int num_parts = 2;
};

using Operands = std::vector<Tensor>;

// The outputs of every position, given the inputs of every position as the option lays them out. Fails where
// the rule does, where programs of positions differ in structure, and where positions that compute on equal
// types have other attributes: those must share a graph.
Result<std::vector<Operands>> run_cut(const CutCall& call, const std::vector<Operands>& inputs);

}  // namespace trireme::op::testing
