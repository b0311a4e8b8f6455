#include "trireme/op/sequence/recurrent.h"

namespace trireme::op::detail {
namespace {
struct Named {
  std::string name;
  TensorType type;
};

// What the inputs of the forward op must be, given x and h0.
std::vector<Named> expected_inputs(const CellKind& kind, const TensorType& x, const TensorType& h0) {
  const DType dtype = x.dtype;
  const std::int64_t units = h0.shape[1], rows = kind.gates * units;
  std::vector<Named> types{{"x", x}, {"h0", {dtype, {x.shape[1], units}}}};
  if (kind.has_cell) types.push_back({"c0", types[1].type});
  types.push_back({"w_ih", {dtype, {rows, x.shape[2]}}});
  types.push_back({"w_hh", {dtype, {rows, units}}});
  types.push_back({"b_ih", {dtype, {rows}}});
  types.push_back({"b_hh", {dtype, {rows}}});
  return types;
}

std::vector<Named> expected_outputs(const CellKind& kind, const TensorType& x, const TensorType& h0) {
  std::vector<Named> types{{"y", {x.dtype, {x.shape[0], x.shape[1], h0.shape[1]}}}, {"h_n", h0}};
  if (kind.has_cell) types.push_back({"c_n", h0});
  return types;
}

std::vector<TensorType> types_of(const std::vector<Named>& named) {
  std::vector<TensorType> types;
  for (const Named& n : named) types.push_back(n.type);
  return types;
}

// The dimension that is the batch, per input and output of the forward op.
std::vector<AxisCut> batch_of_inputs(const CellKind& kind) {
  std::vector<AxisCut> dims{1, 0};
  if (kind.has_cell) dims.push_back(0);
  dims.insert(dims.end(), 4, kReplicate);
  return dims;
}
std::vector<AxisCut> batch_of_outputs(const CellKind& kind) {
  return kind.has_cell ? std::vector<AxisCut>{1, 0, 0} : std::vector<AxisCut>{1, 0};
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
}  // namespace

Types infer_recurrent(const CellKind& kind, Pass pass, TypeSpan in) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  TR_RETURN_IF_ERROR(expect_rank("x", in[0], 3));
  TR_RETURN_IF_ERROR(expect_rank("h0", in[1], 2));
  const auto inputs = expected_inputs(kind, in[0], in[1]), outputs = expected_outputs(kind, in[0], in[1]);
  std::vector<Named> expected = inputs;
  if (pass != Pass::kForward) {
    for (const Named& n : outputs) expected.push_back({"d" + n.name, n.type});
  }
  if (pass == Pass::kGradGrad) {
    for (const Named& n : inputs) expected.push_back({"u_" + n.name, n.type});
  }
  for (std::size_t i = 0; i < expected.size(); ++i)
    TR_RETURN_IF_ERROR(expect_type(expected[i].name, in[i], expected[i].type));
  std::vector<TensorType> out = types_of(pass == Pass::kForward ? outputs : inputs);
  if (pass == Pass::kGradGrad) append(out, types_of(outputs));
  return out;
}

// Per sample and step. The steps follow each other; a step folds along inputs and units.
cost::OpCost recurrent_cost(const CellKind& kind, Pass pass, TypeSpan in, TypeSpan out) {
  const auto steps = static_cast<double>(in[0].shape[0]), batch = static_cast<double>(in[0].shape[1]);
  const auto size = static_cast<double>(in[0].shape[2]), units = static_cast<double>(in[1].shape[1]);
  const double rows = kind.gates * units;
  Tally t = Tally::multiply_adds(rows * (size + units)) + units * kind.step;
  double depth = log_depth(size + units) + 2;
  if (pass != Pass::kForward) {
    t = t + Tally::multiply_adds(2 * rows * (size + units)) + units * kind.back +
        Tally{.add = 2 * rows + units};
    depth += log_depth(rows) + log_depth(batch) + 2;
  }
  const bool dual = pass == Pass::kGradGrad;
  double written = 0;
  for (const TensorType& o : out) written += elems(o);
  depth = steps > 0 ? depth * steps : 1;
  return {.flops = steps * batch * t.flops(dual),
          .bytes = io_bytes(in, out),
          .work = std::max({steps * batch * t.work(dual), written, depth}),
          .depth = depth};
}

std::vector<LayoutOption> recurrent_layout(const CellKind& kind, Pass pass) {
  const auto inputs = batch_of_inputs(kind), outputs = batch_of_outputs(kind);
  if (pass == Pass::kForward) return {{inputs, outputs}};
  LayoutOption option{inputs, inputs};
  append(option.inputs, outputs);
  for (AxisCut& cut : option.outputs)
    if (cut == kReplicate) cut = kPartial;
  if (pass == Pass::kGradGrad) {
    append(option.inputs, inputs);
    append(option.outputs, outputs);
  }
  return {option};
}

Result<Grads> recurrent_grad(GradBuilder& g, const CellKind& kind, Pass pass, const OpDef& next) {
  const bool first = pass == Pass::kForward;
  const int num_inputs = kind.num_inputs() + (first ? 0 : kind.num_outputs());
  const int num_outputs = first ? kind.num_outputs() : kind.num_inputs();
  std::vector<Value> inputs;
  for (int i = 0; i < num_inputs; ++i) inputs.push_back(g.input(i));
  for (int k = 0; k < num_outputs; ++k) {
    const Value d = g.grad_output(k);
    inputs.push_back(d.is_null() ? g.zeros_like(g.output(k)) : d);
  }
  const Value made = g.add(next, std::move(inputs), g.attrs());
  Grads grads;
  for (int i = 0; i < num_inputs; ++i) grads.push_back({made.node, i});
  return grads;
}

}  // namespace trireme::op::detail
