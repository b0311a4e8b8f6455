#include "trireme/server/update_graph.h"

#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::server {

void UpdateScalars::set(float rate, std::int64_t count) const {
  if (learning_rate.is_phantom()) return;
  *learning_rate.data<float>() = rate;
  *step.data<std::int64_t>() = count;
}

Result<UpdateScalars> make_update_scalars(Device& device) {
  UpdateScalars scalars;
  TR_ASSIGN_OR_RETURN(scalars.learning_rate, Tensor::allocate(device, {DType::kF32, {}}));
  TR_ASSIGN_OR_RETURN(scalars.step, Tensor::allocate(device, {DType::kI64, {}}));
  scalars.set(0, 0);
  return scalars;
}

Status check_update_inputs(const graph::Graph& graph, std::span<const StoredPart> parts) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    if (node.def != &op::kInput) continue;
    const std::string& name = node.attrs.get_text("name");
    const bool known = name == "lr" || name == "step" ||
                       std::any_of(parts.begin(), parts.end(),
                                   [&](const StoredPart& p) { return name == "grad:" + p.name; });
    if (!known)
      return error(
          Code::kInvalid,
          "[server] an update reads '{}': got no such input at a server, expected grad:<part>, lr or "
          "step; clipping and corrections of momentum belong to the workers",
          name);
  }
  return {};
}

Result<std::unique_ptr<exec::Execution>> make_update_execution(runtime::Runtime& rt, const UpdateSpec& spec,
                                                               std::span<const StoredPart> parts,
                                                               exec::Variables& variables,
                                                               const UpdateScalars& scalars) {
  TR_RETURN_IF_ERROR(check_update_inputs(spec.graph, parts));
  for (const UpdateSpec::State& s : spec.states) {
    TR_ASSIGN_OR_RETURN(Tensor t, allocate_zeros(device_of(rt), s.type));
    if (t.raw() != nullptr && s.initial != 0) {
      TR_CHECK(s.type.dtype == DType::kF32, "state '{}' is {}", s.name, s.type.to_string());
      std::fill_n(t.data<float>(), s.type.shape.num_elems(), static_cast<float>(s.initial));
    }
    TR_RETURN_IF_ERROR(variables.add(s.name, std::move(t)));
  }
  TR_ASSIGN_OR_RETURN(auto compiled, exec::compile(spec.graph, {}));
  exec::ExecutionOptions options;
  options.variables = &variables;
  TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt, std::move(compiled), std::move(options)));
  if (spec.graph.find_input("lr")) TR_RETURN_IF_ERROR(execution->feed("lr", scalars.learning_rate));
  if (spec.graph.find_input("step")) TR_RETURN_IF_ERROR(execution->feed("step", scalars.step));
  return execution;
}

}  // namespace trireme::server
