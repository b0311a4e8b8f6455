#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "trireme/exec/compiled.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::exec {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueMap;

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& [name, v] : graph.outputs()) names.push_back(name);
  return names;
}

Status unknown_variable(const Graph& graph, std::string_view what, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, v] : graph.variables()) names.push_back(known);
  return error(Code::kNotFound, "[exec] {} for variable '{}', which the graph does not have; it has: {}",
               what, name, fmt::join(names, ", "));
}

Status check_names(const Graph& whole, const Graph& live, const CompileOptions& options) {
  for (const std::string& name : options.bound)
    if (!live.find_output(name))
      return error(Code::kNotFound, "[exec] bound output '{}' is not fetched; fetched are: {}", name,
                   fmt::join(output_names(live), ", "));
  for (const Notice& notice : options.notices) {
    if (notice.after_gate >= 0) {
      if (notice.after_gate < static_cast<int>(options.gates.size())) continue;
      return error(Code::kInvalid, "[exec] notice after gate {} of {}", notice.after_gate,
                   options.gates.size());
    }
    if (!live.find_output(notice.output))
      return error(Code::kNotFound, "[exec] notice for output '{}', which is not fetched; fetched are: {}",
                   notice.output, fmt::join(output_names(live), ", "));
    if (notice.variable.empty() || whole.find_variable(notice.variable)) continue;
    return unknown_variable(whole, "notice", notice.variable);
  }
  for (const VariableGate& gate : options.gates) {
    if (gate.readers != VariableGate::Readers::kAll && !live.find_output(gate.split))
      return error(Code::kNotFound, "[exec] gate around output '{}', which is not fetched; fetched are: {}",
                   gate.split, fmt::join(output_names(live), ", "));
    for (const std::string& name : gate.variables)
      if (!whole.find_variable(name)) return unknown_variable(whole, "gate", name);
    for (const std::string& name : gate.outputs)
      if (std::find(options.bound.begin(), options.bound.end(), name) == options.bound.end())
        return error(Code::kNotFound, "[exec] gate for output '{}', which is not bound; bound are: {}", name,
                     fmt::join(options.bound, ", "));
  }
  if (options.width < 1)
    return error(Code::kInvalid, "[exec] width is {}, expected at least 1", options.width);
  return {};
}

// Bound outputs that cannot be computed in the caller's memory: they are a feed, or share memory with another
// bound one.
std::vector<std::string> outputs_to_copy(const Graph& graph, const std::set<std::string>& bound) {
  const ValueMap<Value> roots = graph::storage_roots(graph);
  ValueMap<bool> taken(graph, false);
  std::vector<std::string> copies;
  for (const std::string& name : bound) {
    const Value root = roots[*graph.find_output(name)];
    if (graph.node(root.node).def->has(op::kFeed) || taken[root])
      copies.push_back(name);
    else
      taken[root] = true;
  }
  return copies;
}

// The graph with a copy of each named output right behind the node that makes it (a reshape to the same
// shape, which is a copy because its output is pinned), so that its notice comes as early as the value.
Result<Graph> with_copies(const Graph& graph, const std::vector<std::string>& names) {
  if (names.empty()) return graph;
  Graph out;
  std::vector<std::int32_t> moved;
  std::vector<std::pair<std::string, Value>> copies;
  const auto at = [&](Value v) { return Value{moved[static_cast<std::size_t>(v.node)], v.index}; };
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    std::vector<Value> inputs;
    for (const Value v : node.inputs) inputs.push_back(at(v));
    TR_ASSIGN_OR_RETURN(const Value own, out.add_like(node, std::move(inputs)));
    for (const std::int32_t c : node.control) out.add_control(moved[static_cast<std::size_t>(c)], own.node);
    moved.push_back(own.node);
    for (const std::string& name : names) {
      const Value v = *graph.find_output(name);
      if (v.node != i) continue;
      const auto dims = graph.type(v).shape.dims();
      TR_ASSIGN_OR_RETURN(
          const Value copy,
          out.add(op::kReshape, {at(v)}, {{"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}},
                  name + "/copy"));
      copies.emplace_back(name, copy);
    }
  }
  for (const auto& [name, v] : graph.outputs()) out.set_output(name, at(v));
  for (const auto& [name, v] : copies) out.set_output(name, v);
  return out;
}

// Bound outputs by the Value that is computed in the caller's memory: reshapes lead to what they are a view
// of.
std::vector<External> bound_values(const Graph& graph, const std::set<std::string>& bound,
                                   const std::vector<std::string>& copied) {
  const ValueMap<Value> roots = graph::storage_roots(graph);
  std::vector<External> values;
  for (const std::string& name : bound) {
    const Value v = *graph.find_output(name);
    const bool is_copy = std::find(copied.begin(), copied.end(), name) != copied.end();
    values.push_back({name, is_copy ? v : roots[v]});
  }
  return values;
}

// Nodes that read one of these variables, or a view of it; ascending.
std::vector<std::int32_t> readers_of(const Graph& graph, const std::vector<std::string>& variables,
                                     const ValueMap<Value>& roots) {
  std::vector<Value> read;
  for (const std::string& name : variables)
    if (const std::optional<Value> v = graph.find_variable(name)) read.push_back(*v);
  std::vector<std::int32_t> nodes;
  for (std::int32_t i = 0; !read.empty() && i < graph.size(); ++i) {
    if (graph::is_free(graph, i, roots)) continue;
    const auto& in = graph.node(i).inputs;
    if (std::any_of(in.begin(), in.end(),
                    [&](Value x) { return std::find(read.begin(), read.end(), roots[x]) != read.end(); }))
      nodes.push_back(i);
  }
  return nodes;
}

// The value that an output is a view of.
Value made_value(const Graph& graph, const std::string& output, const ValueMap<Value>& roots) {
  Value v = *graph.find_output(output);
  while (graph::is_free(graph, v.node, roots) && !graph.node(v.node).def->has(op::kFeed))
    v = graph.node(v.node).inputs[0];
  return v;
}

// Nodes that write the memory of one of these outputs; ascending.
std::vector<std::int32_t> writers_of(const Graph& graph, const std::vector<std::string>& outputs,
                                     const ValueMap<Value>& roots) {
  std::vector<Value> written;
  for (const std::string& name : outputs) written.push_back(roots[*graph.find_output(name)]);
  std::vector<std::int32_t> nodes;
  for (std::int32_t i = 0; !written.empty() && i < graph.size(); ++i) {
    bool writes = false;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k)
      writes = writes || std::find(written.begin(), written.end(), roots[Value{i, k}]) != written.end();
    if (writes && !graph::is_free(graph, i, roots)) nodes.push_back(i);
  }
  return nodes;
}

// Nodes are in topological order: those up to the split wait for none behind it.
std::vector<std::int32_t> gated_nodes(const Graph& graph, const VariableGate& gate,
                                      const ValueMap<Value>& roots) {
  std::vector<std::int32_t> nodes = readers_of(graph, gate.variables, roots);
  const std::vector<std::int32_t> writers = writers_of(graph, gate.outputs, roots);
  nodes.insert(nodes.end(), writers.begin(), writers.end());
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  if (gate.readers == VariableGate::Readers::kAll) return nodes;
  const std::int32_t split = made_value(graph, gate.split, roots).node;
  const bool behind = gate.readers == VariableGate::Readers::kBehind;
  std::erase_if(nodes, [&](std::int32_t node) { return (node > split) != behind; });
  return nodes;
}

// What must have ended before a notice: the node that writes the output, and every reader of the variable.
std::vector<std::int32_t> watched_nodes(const Graph& graph, const Notice& notice,
                                        const ValueMap<Value>& roots) {
  std::vector<std::int32_t> nodes;
  const Value v = made_value(graph, notice.output, roots);
  if (!graph.node(v.node).def->has(op::kFeed)) nodes.push_back(v.node);
  const std::vector<std::int32_t> readers = readers_of(graph, {notice.variable}, roots);
  nodes.insert(nodes.end(), readers.begin(), readers.end());
  return nodes;
}

// What plans call the op of a node.
std::string planned_name(const Node& node) { return op::formed_name(*node.def, node.forms); }

// What a plan says of a node's kernel.
struct Wanted {
  std::string kernel;      // empty: nothing
  bool old_names = false;  // the plan is from before forms: see kernel_names_before_forms
};

// Plans from before nodes had forms call a formed conv2d "adapted conv2d", or "adapted" without its op. Rows
// of the CPU have the names that they had; of a GPU such plans say "nvrtc", and after it the algorithm.
std::vector<std::string> kernel_names_before_forms(const Node& node) {
  if (node.forms.is_plain()) return {};
  return {fmt::format("adapted {}", node.def->name), "adapted"};
}

// The plan's kernel for a node: "op:node" names an exception, "op" the rule.
Result<Wanted> wanted_kernel(const Node& node, const CompileOptions& options) {
  const auto find = [&](const std::string& name) -> const std::string* {
    auto at = options.kernels.find(name + ":" + node.name);
    if (at == options.kernels.end()) at = options.kernels.find(name);
    return at == options.kernels.end() ? nullptr : &at->second;
  };
  const std::string op_name = planned_name(node);
  if (const std::string* kernel = find(op_name)) return Wanted{*kernel};
  for (const std::string& name : kernel_names_before_forms(node))
    if (const std::string* kernel = find(name)) return Wanted{*kernel, /*old_names=*/true};
  if (options.strict_kernels)
    return error(Code::kNotFound,
                 "[exec] the plan names no kernel for op '{}' (node '{}'); make the plan anew", op_name,
                 node.name);
  return Wanted{};
}

// Workspaces of a GPU are aligned to this many bytes.
constexpr std::int64_t kWorkspaceAlign = 256;

// Kernels made so far: equal nodes share one, since making one may take long.
using CudaKernels = std::map<std::string, std::shared_ptr<const kernel::cuda::CudaKernel>>;

std::string kernel_key(const Node& node, std::span<const TensorType> in, const std::string& kernel) {
  std::string key = fmt::format("{}|{}|", planned_name(node), kernel);
  for (const TensorType& t : in) key += t.to_string() + ",";
  for (const TensorType& t : node.outputs) key += t.to_string() + ",";
  graph::append_attrs(key, node.attrs);
  return key;
}

Status choose_cuda_kernel(const Node& node, std::span<const TensorType> in, const CompileOptions& options,
                          const Wanted& wanted, CudaKernels& made_before, NodePlan& plan) {
  const kernel::cuda::FormedQuery formed({*node.def, in, node.outputs, node.attrs, options.width, node.forms},
                                         *kernel::cuda::as_cuda(options.device.get()), options.tf32);
  kernel::cuda::CudaQuery query = formed.query();
  query.algorithm = kernel::cuda::algorithm_of(wanted.kernel);
  const auto named = [&](const Status& status) {
    return status.with_prefix(fmt::format("[exec] node '{}': ", node.name));
  };
  const Result<const kernel::cuda::CudaRow*> row =
      kernel::cuda::choose_cuda_kernel(query, wanted.old_names ? "" : wanted.kernel);
  if (!row.ok()) return named(row.status());
  plan.kernel = kernel::cuda::kernel_name((*row)->name, query.algorithm);
  std::shared_ptr<const kernel::cuda::CudaKernel>& shared = made_before[kernel_key(node, in, plan.kernel)];
  if (shared == nullptr) {
    Result<std::unique_ptr<kernel::cuda::CudaKernel>> made = (*row)->make(query);
    if (!made.ok()) return named(made.status());
    shared = std::move(*made);
  }
  plan.cuda = shared;
  const auto bytes = static_cast<std::int64_t>(plan.cuda->workspace_bytes());
  plan.workspace_bytes = bytes > 0 ? bytes + kWorkspaceAlign : 0;
  return {};
}

Status choose_kernel(const Graph& graph, std::int32_t id, const CompileOptions& options,
                     CudaKernels& made_before, NodePlan& plan) {
  const Node& node = graph.node(id);
  std::vector<TensorType> in;
  for (const Value v : node.inputs) in.push_back(graph.type(v));
  const op::KernelQuery query{*node.def, in, node.outputs, node.attrs, options.width, node.forms};
  TR_ASSIGN_OR_RETURN(const Wanted wanted, wanted_kernel(node, options));
  if (kernel::cuda::as_cuda(options.device.get()) != nullptr)
    return choose_cuda_kernel(node, in, options, wanted, made_before, plan);
  Result<kernel::KernelChoice> choice = kernel::choose_cpu_kernel(query, wanted.kernel);
  if (!choice.ok()) return choice.status().with_prefix(fmt::format("[exec] node '{}': ", node.name));
  plan.kernel = choice->name();
  if (const op::KernelRow* row = choice->row) {
    plan.run = row->run;
    if (row->workspace_bytes) plan.workspace_bytes = static_cast<std::int64_t>(row->workspace_bytes(query));
    if (row->prepare) plan.state = row->prepare(query);
  } else {
    op::ReferenceKernel reference = op::reference_kernel(query);
    plan.run = reference.run;
    plan.workspace_bytes = static_cast<std::int64_t>(reference.workspace_bytes);
    plan.state = std::move(reference.state);
  }
  if (plan.run == nullptr)
    return error(Code::kNotFound, "[exec] op '{}' (node '{}') has no kernel here", planned_name(node),
                 node.name);
  return {};
}

// Numbers the tensors that kernels and host ops see, and finds those that show an input.
void number_slots(CompiledPlan& plan) {
  const Graph& graph = plan.program;
  ValueMap<std::int32_t> input_of(graph, -1);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const std::string* name = nullptr;
    if (node.def == &op::kInput || node.def == &op::kVariable) name = &node.attrs.get_text("name");
    if (node.def == &op::kInput) {
      input_of[Value{i, 0}] = static_cast<std::int32_t>(plan.inputs.size());
      plan.inputs.push_back({*name, {i, 0}});
    } else if (node.def == &op::kVariable) {
      plan.variables.push_back({*name, {i, 0}});
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      if (const Value alias = plan.place({i, k}).alias_of; !alias.is_null())
        input_of[Value{i, k}] = input_of[alias];
  }
  plan.input_slots.resize(plan.inputs.size());
  for (const bool hosts : {true, false}) {
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      const std::int32_t strand = plan.part.strand_of[static_cast<std::size_t>(i)];
      if (strand < 0 || plan.part.strands[static_cast<std::size_t>(strand)].is_host != hosts) continue;
      const Node& node = graph.node(i);
      plan.nodes[static_cast<std::size_t>(i)].first_slot = plan.num_slots;
      for (const Value v : node.inputs) {
        if (input_of[v] >= 0)
          plan.input_slots[static_cast<std::size_t>(input_of[v])].emplace_back(plan.num_slots, v);
        ++plan.num_slots;
      }
      plan.num_slots += node.outputs.size();
    }
    if (hosts) plan.num_host_slots = plan.num_slots;
  }
}

// An output that shows an input reads it in its phase.
void find_phase_inputs(CompiledPlan& plan) {
  const Graph& graph = plan.program;
  const ValueMap<Value> roots = graph::storage_roots(graph, plan.pinned);
  plan.phase_inputs.resize(static_cast<std::size_t>(plan.phases.num));
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(plan.inputs.size()); ++k) {
    const Value input = plan.inputs[static_cast<std::size_t>(k)].value;
    std::set<std::int32_t> readers;
    for (std::int32_t i = 0; i < graph.size(); ++i)
      if (!graph::is_free(graph, i, roots))
        for (const Value v : graph.node(i).inputs)
          if (roots[v] == input) readers.insert(plan.phases.of(i));
    for (const auto& [name, v] : graph.outputs())
      if (roots[v] == input) readers.insert(plan.phases.of(name));
    for (const std::int32_t p : readers) plan.phase_inputs[static_cast<std::size_t>(p)].push_back(k);
  }
}

// The phase in which everything that a notice waits for has ended; only the nodes of that phase are left to
// wait for.
std::int32_t phase_of_notice(const Phases& phases, const Notice& notice, std::vector<std::int32_t>& watched) {
  if (watched.empty()) return phases.of(notice.output);
  std::int32_t last = 0;
  for (const std::int32_t n : watched) last = std::max(last, phases.of(n));
  std::erase_if(watched, [&](std::int32_t n) { return phases.of(n) < last; });
  return last;
}

Status plan_nodes(CompiledPlan& plan) {
  const Graph& graph = plan.program;
  plan.nodes.resize(static_cast<std::size_t>(graph.size()));
  graph::MemoryRequest request{.pinned = plan.pinned,
                               .workspace_bytes = std::vector<std::int64_t>(plan.nodes.size(), 0),
                               .strand = plan.part.strand_of,
                               .strand_order = plan.part.lane_order,
                               .phase = plan.phases.of_node};
  CudaKernels made;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    NodePlan& node = plan.nodes[static_cast<std::size_t>(i)];
    if (plan.part.strand_of[static_cast<std::size_t>(i)] < 0 || graph.node(i).def->has(op::kHostOp)) continue;
    TR_RETURN_IF_ERROR(choose_kernel(graph, i, plan.options, made, node));
    request.workspace_bytes[static_cast<std::size_t>(i)] = node.workspace_bytes;
  }
  TR_ASSIGN_OR_RETURN(graph::MemoryResult memory, graph::plan_memory(graph, request));
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    plan.nodes[i].workspace_offset = memory.workspace_offsets[i];
  plan.places = std::move(memory.plan);
  number_slots(plan);
  find_phase_inputs(plan);
  return {};
}

}  // namespace

Result<std::shared_ptr<const CompiledGraph>> compile(const Graph& graph, CompileOptions options) {
  TR_RETURN_IF_ERROR(graph::verify(graph));
  TR_ASSIGN_OR_RETURN(const Graph live, graph::eliminate_dead_code(graph, options.fetches));
  TR_RETURN_IF_ERROR(check_names(graph, live, options));
  const std::set<std::string> bound(options.bound.begin(), options.bound.end());
  const std::vector<std::string> copies = outputs_to_copy(live, bound);

  auto plan = std::make_shared<CompiledPlan>();
  TR_ASSIGN_OR_RETURN(plan->program, with_copies(live, copies));
  if (!options.phases.empty()) {
    TR_ASSIGN_OR_RETURN(PhasedGraph phased, order_by_phase(plan->program, options.phases));
    plan->program = std::move(phased.graph);
    plan->phases = std::move(phased.phases);
  }
  plan->bound = bound_values(plan->program, bound, copies);
  for (const External& e : plan->bound) plan->pinned.push_back(e.value);
  const ValueMap<Value> roots = graph::storage_roots(plan->program, plan->pinned);
  NodeLists watched, gated;
  for (const VariableGate& gate : options.gates) gated.push_back(gated_nodes(plan->program, gate, roots));
  for (const Notice& notice : options.notices) {
    watched.push_back(notice.after_gate >= 0 ? gated[static_cast<std::size_t>(notice.after_gate)]
                                             : watched_nodes(plan->program, notice, roots));
    plan->notice_phase.push_back(phase_of_notice(plan->phases, notice, watched.back()));
  }
  plan->part = partition(plan->program, roots, watched, gated, plan->phases);
  plan->options = std::move(options);
  TR_RETURN_IF_ERROR(plan_nodes(*plan));
  return std::shared_ptr<const CompiledGraph>(std::move(plan));
}

cost::OpCost CompiledPlan::cost() const {
  cost::OpCost total;
  for (const Strand& s : part.strands) total += s.cost;
  return total;
}

std::vector<std::string> CompiledPlan::inputs_of_phase(int phase) const {
  std::vector<std::string> names;
  for (const std::int32_t k : phase_inputs[static_cast<std::size_t>(phase)])
    names.push_back(inputs[static_cast<std::size_t>(k)].name);
  return names;
}

// Views of a variable that an earlier phase made are the variable too.
std::set<std::string> CompiledPlan::variables_of_phase(int phase) const {
  const ValueMap<Value> roots = graph::storage_roots(program, pinned);
  ValueMap<const std::string*> variable(program, nullptr);
  const auto variables = program.variables();
  for (const auto& [name, v] : variables) variable[v] = &name;
  std::set<std::string> names;
  for (std::int32_t i = 0; i < program.size(); ++i) {
    if (phases.of(i) != phase || graph::is_free(program, i, roots)) continue;
    for (const Value v : program.node(i).inputs)
      if (const std::string* const name = variable[roots[v]]; name != nullptr) names.insert(*name);
  }
  return names;
}

cost::OpCost CompiledPlan::phase_cost(int phase) const {
  cost::OpCost total;
  const auto p = static_cast<std::size_t>(phase);
  for (std::int32_t s = part.first_strand[p]; s < part.first_strand[p + 1]; ++s)
    total += part.strands[static_cast<std::size_t>(s)].cost;
  return total;
}

// On a GPU every kernel is a strand of its own: they follow each other, so what one computes does not hide
// what another one moves.
Outline CompiledPlan::outline() const {
  Outline out;
  out.notice_after.assign(part.notice_before.size(), -1);
  std::vector<std::int32_t> begins;  // of the strands, among those of the outline
  for (const Strand& strand : part.strands) {
    begins.push_back(static_cast<std::int32_t>(out.strands.size()));
    if (gpu() == nullptr) out.strands.push_back(strand.cost);
    for (const std::int32_t node : strand.nodes)
      if (gpu() != nullptr && !node_plan(node).kernel.empty())
        out.strands.push_back(graph::node_cost(program, node));
    for (const std::int32_t n : strand.notices)
      out.notice_after[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(out.strands.size()) - 1;
    if (!phases.of_node.empty()) out.phase_of.resize(out.strands.size(), phases.of(strand.nodes[0]));
  }
  for (const auto& strands : part.gate_strands)
    out.gate_before.push_back(strands.empty() ? -1 : begins[static_cast<std::size_t>(strands.front())]);
  return out;
}

bool CompiledPlan::is_behind(int notice, int gate) const {
  std::vector<bool> found(part.strands.size(), false);
  std::vector<std::int32_t> next = part.gate_strands[static_cast<std::size_t>(gate)];
  const auto phase = static_cast<std::size_t>(notice_phase[static_cast<std::size_t>(notice)]);
  if (!next.empty() && next.front() < part.first_strand[phase]) return true;
  while (!next.empty()) {
    const std::int32_t at = next.back();
    next.pop_back();
    if (found[static_cast<std::size_t>(at)]) continue;
    found[static_cast<std::size_t>(at)] = true;
    const Strand& strand = part.strands[static_cast<std::size_t>(at)];
    if (std::find(strand.notices.begin(), strand.notices.end(), notice) != strand.notices.end()) return true;
    next.insert(next.end(), strand.after.begin(), strand.after.end());
  }
  return false;
}

std::map<std::string, std::string> CompiledPlan::kernels() const {
  std::map<std::string, std::string> chosen;
  for (std::int32_t i = 0; i < program.size(); ++i) {
    const NodePlan& n = node_plan(i);
    if (n.kernel.empty()) continue;
    const std::string op_name = planned_name(program.node(i));
    const auto [at, added] = chosen.try_emplace(op_name, n.kernel);
    if (!added && at->second != n.kernel) chosen.emplace(op_name + ":" + program.node(i).name, n.kernel);
  }
  return chosen;
}

std::string CompiledPlan::to_text() const {
  std::string text = fmt::format("arena {} bytes, width {}\n", places.arena_bytes, options.width);
  if (!phases.of_node.empty())
    text += fmt::format("scratch memory {} bytes, {} phases\n", places.scratch_bytes, phases.num);
  for (std::size_t s = 0; s < part.strands.size(); ++s) {
    const Strand& strand = part.strands[s];
    if (!phases.of_node.empty()) text += fmt::format("phase {}, ", phases.of(strand.nodes[0]));
    text += fmt::format("strand {}{}: {:.4g} flops, {:.4g} bytes, waits for {}, then [{}], notices [{}]\n", s,
                        strand.is_host ? " (host)" : "", strand.cost.flops, strand.cost.bytes,
                        strand.num_before, fmt::join(strand.after, ", "), fmt::join(strand.notices, ", "));
    for (const std::int32_t i : strand.nodes) {
      text += fmt::format("  %{} {} ({})", i, program.node(i).name, planned_name(program.node(i)));
      if (!node_plan(i).kernel.empty()) text += fmt::format(" by {}", node_plan(i).kernel);
      for (const auto& p : places.places[static_cast<std::size_t>(i)]) {
        text += p.offset >= 0 ? fmt::format(" @{}{}", p.scratch ? "scratch+" : "", p.offset)
                              : std::string(" @outside");
        if (!p.alias_of.is_null()) text += fmt::format(" =%{}", p.alias_of.node);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace trireme::exec
