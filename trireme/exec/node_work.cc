// What nodes are measured and priced by.
#include "trireme/exec/compiled.h"
#include "trireme/op/forms.h"
#include "trireme/op/node_text.h"

namespace trireme::exec {

cost::Work CompiledPlan::strand_work(std::int32_t strand) const {
  cost::Work work;
  if (gpu() != nullptr) return work;
  for (const std::int32_t i : part.strands[static_cast<std::size_t>(strand)].nodes) {
    const NodePlan& n = node_plan(i);
    if (n.run == nullptr) continue;
    const graph::Node& node = program.node(i);
    std::vector<TensorType> types;
    for (const Value v : node.inputs) types.push_back(program.type(v));
    std::string key = op::formed_name(*node.def, node.forms) + op::node_text(node.attrs, types);
    key += fmt::format("|{}|{} threads", n.kernel, options.width);
    work.push_back({node.name, std::move(key), std::string(node.def->name), graph::node_cost(program, i), 1});
  }
  return work;
}

std::vector<std::pair<std::string, TensorType>> CompiledPlan::bound_outputs() const {
  std::vector<std::pair<std::string, TensorType>> out;
  for (const External& e : bound) out.emplace_back(e.name, program.type(*program.find_output(e.name)));
  return out;
}

}  // namespace trireme::exec
