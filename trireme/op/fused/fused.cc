// A group of elementwise ops as one op. Made by the pass `fuse`, after gradients: it has none of its own.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const FusedProgram program, parse_program(attrs.get_text("program")));
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> types, register_types(program, in));
  std::vector<TensorType> out;
  for (const int r : program.outputs) out.push_back(types[idx(r)]);
  return out;
}

void run(KernelArgs& a) { run_program(*parse_program(a.attrs.get_text("program")), a.inputs, a.outputs); }

// The arithmetic of the members, one after the other; the traffic of the group as a whole.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const auto program = parse_program(attrs.get_text("program"));
  const auto types = register_types(*program, in);
  cost::OpCost total;
  std::size_t result = in.size();
  for (const FusedStep& step : program->steps) {
    std::vector<TensorType> operands;
    for (const int r : step.operands) operands.push_back((*types)[idx(r)]);
    if (step.def->cost) total += step.def->cost(operands, std::span(&(*types)[result], 1), step.attrs);
    ++result;
  }
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options = elementwise_layout(in, {});
  const auto program = parse_program(attrs.get_text("program"));
  if (!program.ok()) return {};
  for (LayoutOption& o : options) o.outputs.assign(program->outputs.size(), o.outputs[0]);
  return options;
}
}  // namespace

const OpDef kFused{.name = "fused",
                   .doc = "A group of elementwise ops that reads each input and writes each output once.",
                   .family = "elementwise",
                   .num_inputs = -1,
                   .num_outputs = -1,
                   .attrs = {{"program", std::string(), "the members and how they are wired, as JSON", true}},
                   .infer = infer,
                   .reference = run,
                   .cost = cost,
                   .layout = layout,
                   .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
