// The program of a `fused` node: elementwise ops that are evaluated together, block by block, so that every
// input is read once and every output written once.
//
// Registers: 0 ... num_inputs-1 are the inputs, the next ones the results of the steps. Every step has the
// same shape (the loop shape); inputs may broadcast to it. Text form, the attribute `program`:
//   {"inputs":2,"steps":[["add",[0,1]],["scale",[2],{"factor":0.5}]],"outputs":[3]}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::detail {

inline constexpr int kMaxFusedInputs = 32;
inline constexpr int kMaxFusedSteps = 32;
inline constexpr int kMaxStepOperands = 4;

struct FusedStep {
  const OpDef* def = nullptr;
  std::vector<int> operands;  // registers
  Attrs attrs;                // complete
};

struct FusedProgram {
  int num_inputs = 0;
  std::vector<FusedStep> steps;
  std::vector<int> outputs;  // registers of steps, each once

  int num_registers() const { return num_inputs + static_cast<int>(steps.size()); }
};

// Ops that may be a step: elementwise, one output, a pure function with a kernel that needs no workspace.
// register_types refuses those of them that do not work on flat blocks (bias_add).
bool is_fusable(const OpDef& def);

Result<std::string> program_text(const FusedProgram& program);
// Checks everything but types: ops, attributes, registers, limits.
Result<FusedProgram> parse_program(std::string_view text);
// Types of all registers for inputs of these types.
Result<std::vector<TensorType>> register_types(const FusedProgram& program, std::span<const TensorType> in);

// Elements that run_program moved between memory and its blocks.
struct FusedTraffic {
  std::int64_t loads = 0, stores = 0;
};
// The reference: members' reference kernels over blocks of 256 elements. Outputs may be inputs of their type.
void run_program(const FusedProgram& program, std::span<const Tensor> in, std::span<const Tensor> out,
                 FusedTraffic* traffic = nullptr);

}  // namespace trireme::op::detail
