#include "trireme/eager/tracer.h"

#include <algorithm>

#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

op::Attrs feed_attrs(const std::string& name, const TensorType& type) {
  const auto dims = type.shape.dims();
  return {
      {"name", name}, {"dtype", type.dtype}, {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}};
}

}  // namespace

Tracer::Tracer(Context& context)
    : context_(context), id_(context.next_sequence_++), status_before_(context.status_) {
  context_.tracer_ = this;
  context_.status_ = {};
}

Tracer::~Tracer() {
  context_.tracer_ = nullptr;
  context_.status_ = status_before_;
}

Array Tracer::traced(op::Value edge) {
  auto state = std::make_shared<ArrayState>();
  state->context = &context_;
  state->data = {.type = out_.graph.type(edge), .tensor = {}, .edge = edge, .trace = id_, .storage = nullptr};
  return Array(std::move(state));
}

Array Tracer::input(const TraceInput& spec) {
  Result<op::Value> v = out_.graph.add(op::kInput, {}, feed_attrs(spec.name, spec.type));
  return v.ok() ? traced(*v) : context_.poisoned(v.status().with_prefix("[eager] trace: "));
}

Result<op::Value> Tracer::variable(const std::shared_ptr<ArrayState>& state) {
  const auto at = variables_.find(state->data.storage.get());
  if (at == variables_.end()) {
    TR_ASSIGN_OR_RETURN(const op::Value v,
                        out_.graph.add(op::kVariable, {}, feed_attrs(state->name, state->data.type)));
    variables_.emplace(state->data.storage.get(), Variable{state, v});
    out_.variables.emplace(state->name, state->data.tensor);
    return v;
  }
  if (at->second.now.is_null())
    return error(
        Code::kInvalid,
        "[eager] '{}' is used after {} changed it; in a trace only the first input of an update can be "
        "used again: use it before, or in another trace",
        state->name, at->second.changed_by);
  return at->second.now;
}

Result<op::Value> Tracer::capture(const std::shared_ptr<ArrayState>& state) {
  const auto at = captured_.find(state.get());
  if (at != captured_.end()) return at->second.second;
  const std::string name = fmt::format("captured/{}", captured_.size());
  TR_ASSIGN_OR_RETURN(const Tensor value, Array(state).tensor());
  TR_ASSIGN_OR_RETURN(const op::Value v, out_.graph.add(op::kInput, {}, feed_attrs(name, state->data.type)));
  captured_.emplace(state.get(), std::pair{state, v});
  out_.captured.emplace(name, value);
  return v;
}

Result<op::Value> Tracer::edge_of(const Array& array) {
  const std::shared_ptr<ArrayState>& state = array.state();
  if (!state->data.tensor.is_null()) return state->is_parameter ? variable(state) : capture(state);
  if (state->data.trace != id_)
    return error(Code::kInvalid, "[eager] an input belongs to a trace that has ended");
  return state->data.edge;
}

Datum Tracer::datum(const Array& array) {
  const Result<op::Value> v = edge_of(array);
  if (!v.ok()) return array.state()->data;
  return {.type = array.type(), .tensor = {}, .edge = *v, .trace = id_, .storage = nullptr};
}

std::uint64_t Tracer::version(const ArrayState& state) const {
  if (!state.data.storage) return 0;
  const auto at = variables_.find(state.data.storage.get());
  return state.data.storage->version + (at == variables_.end() ? 0 : at->second.writes);
}

std::vector<Array> Tracer::call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  const auto fail = [&](const Status& s) {
    return context_.fail(s.with_prefix(fmt::format("[eager] trace, {}: ", def.name)), def.num_outputs);
  };
  std::vector<op::Value> edges;
  for (const Array& a : inputs) {
    Result<op::Value> v = edge_of(a);
    if (!v.ok()) return fail(v.status());
    edges.push_back(*v);
  }
  Result<op::Value> added = out_.graph.add(def, std::move(edges), std::move(attrs));
  if (!added.ok()) return fail(added.status());
  std::vector<Array> outputs;
  const auto num_outputs = static_cast<std::int32_t>(out_.graph.node(added->node).outputs.size());
  for (std::int32_t k = 0; k < num_outputs; ++k) outputs.push_back(traced({added->node, k}));
  if (def.has(op::kMutates)) {
    note_writes(def, inputs, *added);
    outputs[0] = inputs[0];
    return outputs;
  }
  const op::Attrs complete = out_.graph.node(added->node).attrs;
  context_.record(def, complete, inputs, outputs);
  return outputs;
}

void Tracer::note_writes(const op::OpDef& def, std::span<const Array> inputs, op::Value output) {
  for (const int m : def.mutated_inputs) {
    Variable& v = variables_.at(inputs[static_cast<std::size_t>(m)].state()->data.storage.get());
    v.now = m == 0 ? output : op::Value{};
    v.changed_by = def.name.data();
    ++v.writes;
  }
}

Array Tracer::grad(const ArrayState& leaf) const {
  const auto at = grads_.find(&leaf);
  return at == grads_.end() ? Array() : at->second.second;
}

void Tracer::set_grad(const std::shared_ptr<ArrayState>& leaf, Array grad) {
  grads_[leaf.get()] = {leaf, std::move(grad)};
}

Result<Traced> Tracer::finish(const NamedArrays& outputs) {
  TR_RETURN_IF_ERROR(context_.status_);
  for (const auto& [name, array] : outputs) {
    if (!array.ok()) return array.status().with_prefix(fmt::format("[eager] trace, output '{}': ", name));
    TR_ASSIGN_OR_RETURN(const op::Value v, edge_of(array));
    out_.graph.set_output(name, v);
  }
  for (const auto& [storage, v] : variables_) {
    if (v.writes == 0 || v.now.is_null()) continue;
    out_.updates.push_back("updated:" + v.state->name);
    out_.graph.set_output(out_.updates.back(), v.now);
  }
  std::sort(out_.updates.begin(), out_.updates.end());
  TR_RETURN_IF_ERROR(graph::verify(out_.graph));
  return std::move(out_);
}

Result<Traced> trace(Context& context, const std::vector<TraceInput>& inputs,
                     const TracedFunction& function) {
  if (Tracer::is_tracing(context))
    return error(Code::kInvalid, "[eager] trace() inside a traced function; call the function itself");
  Tracer tracer(context);
  std::vector<Array> arrays;
  for (const TraceInput& spec : inputs) arrays.push_back(tracer.input(spec));
  return tracer.finish(function(arrays));
}

}  // namespace trireme::eager
