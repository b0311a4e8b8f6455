#include "tests/conformance/cut_run.h"

#include <algorithm>

#include "tests/conformance/exchange.h"
#include "tests/conformance/parts.h"
#include "tests/op/run_op.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

using Ints = std::vector<std::int64_t>;

struct Node {
  const OpDef* def = nullptr;  // null: the value is given
  std::vector<Value> inputs = {};
  Attrs attrs = {};
  std::vector<TensorType> types = {};
  std::vector<Tensor> values = {};  // given ones from the beginning, others once they have run
};

bool has_same_structure(const Node& a, const Node& b) {
  return a.def == b.def && a.inputs == b.inputs && a.types.size() == b.types.size();
}

// The program of one position.
class Recorder final : public CutBuilder {
 public:
  Recorder(const CutCall& call, int position, const Operands& inputs) : call_(call), position_(position) {
    for (const Tensor& t : inputs) give(t);
  }

  const LayoutOption& option() override { return call_.option; }
  const Attrs& attrs() override { return call_.attrs; }
  const TensorType& whole_input(int i) override { return call_.inputs[static_cast<std::size_t>(i)]; }
  const TensorType& whole_output(int k) override { return call_.outputs[static_cast<std::size_t>(k)]; }
  int num_parts() override { return call_.num_parts; }
  int position() override { return position_; }
  Value input(int i) override { return {i, 0}; }
  const TensorType& type(Value v) override { return node(v).types[static_cast<std::size_t>(v.index)]; }

  Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs) override {
    TR_CHECK(!def.has(kFeed) && !def.has(kMutates), "a cut may not add {}", def.name);
    std::vector<TensorType> types;
    for (const Value v : inputs) types.push_back(type(v));
    auto complete = complete_attrs(def, std::move(attrs));
    TR_CHECK(complete.ok(), "{}", complete.status().to_string());
    auto out = infer_types(def, types, *complete);
    TR_CHECK(out.ok(), "{}", out.status().to_string());
    return push({&def, std::move(inputs), *std::move(complete), *std::move(out)});
  }

  Value begin_of(std::int64_t size) override {
    const Ints begins = part_begins(size, call_.num_parts);
    return give(filled({DType::kI64, {}}, static_cast<double>(begins[static_cast<std::size_t>(position_)])));
  }

  Value reduce(Value partial, int kind) override {
    TR_CHECK(kind == kPartial || kind == kPartialMax, "reduce: got {}", kind);
    return add(kAllreduce, {partial}, {{"reduction", std::string(kind == kPartial ? "sum" : "max")}});
  }

  Value window(Value part, int dim, std::int64_t size, Ints begins, Ints ends, double fill) override {
    const auto own = static_cast<std::size_t>(position_);
    const Ints sizes = part_sizes(size, call_.num_parts);
    TR_CHECK(type(part).shape[dim] == sizes[own], "window: {} is no part of {}", type(part).to_string(),
             size);
    TR_CHECK(begins.size() == sizes.size() && ends.size() == sizes.size(),
             "window: expected {} begins and ends", sizes.size());
    const std::int64_t extent = ends[own] - begins[own];
    return add(kHaloExchange, {part},
               {{"world", std::int64_t{call_.num_parts}},
                {"dim", std::int64_t{dim}},
                {"sizes", sizes},
                {"begins", std::move(begins)},
                {"ends", std::move(ends)},
                {"extent", extent},
                {"fill", fill}});
  }

  std::vector<Node>& nodes() { return nodes_; }
  const Node& node(Value v) const {
    TR_CHECK(v.node >= 0 && static_cast<std::size_t>(v.node) < nodes_.size(), "no node {}", v.node);
    return nodes_[static_cast<std::size_t>(v.node)];
  }
  const Tensor& value(Value v) const { return node(v).values[static_cast<std::size_t>(v.index)]; }

 private:
  Value give(const Tensor& value) { return push({.types = {value.type()}, .values = {value}}); }
  Value push(Node node) {
    nodes_.push_back(std::move(node));
    return {static_cast<std::int32_t>(nodes_.size()) - 1, 0};
  }

  const CutCall& call_;
  int position_;
  std::vector<Node> nodes_;
};

Status check_programs(std::vector<Recorder>& programs) {
  const std::vector<Node>& first = programs[0].nodes();
  for (Recorder& program : programs) {
    const std::vector<Node>& nodes = program.nodes();
    if (!std::equal(first.begin(), first.end(), nodes.begin(), nodes.end(), has_same_structure))
      return error(Code::kInvalid, "the programs of positions differ in more than sizes");
    const auto same_types = [](const Node& a, const Node& b) { return a.types == b.types; };
    if (!std::equal(first.begin(), first.end(), nodes.begin(), same_types)) continue;
    const auto same_attrs = [](const Node& a, const Node& b) { return a.attrs == b.attrs; };
    if (!std::equal(first.begin(), first.end(), nodes.begin(), same_attrs))
      return error(Code::kInvalid, "positions with equal types have other attributes");
  }
  return {};
}

// Node `i` of all positions, which exchange their values.
void run_exchange(std::vector<Recorder>& programs, std::size_t i) {
  std::vector<Tensor> inputs;
  std::vector<Attrs> attrs;
  for (Recorder& program : programs) {
    const Node& node = program.nodes()[i];
    inputs.push_back(program.value(node.inputs[0]));
    attrs.push_back(node.attrs);
  }
  const auto outputs = exchange(*programs[0].nodes()[i].def, attrs, inputs);
  for (std::size_t p = 0; p < programs.size(); ++p) programs[p].nodes()[i].values = {outputs[p]};
}

Status run_alone(Recorder& program, std::size_t i) {
  Node& node = program.nodes()[i];
  if (node.def == nullptr) return {};
  Operands inputs;
  for (const Value v : node.inputs) inputs.push_back(program.value(v));
  TR_ASSIGN_OR_RETURN(node.values, run_op(*node.def, inputs, node.attrs));
  return {};
}

Status run_in_lock_step(std::vector<Recorder>& programs) {
  for (std::size_t i = 0; i < programs[0].nodes().size(); ++i) {
    const OpDef* def = programs[0].nodes()[i].def;
    if (def != nullptr && def->has(kHostOp)) {
      run_exchange(programs, i);
      continue;
    }
    for (Recorder& program : programs) TR_RETURN_IF_ERROR(run_alone(program, i));
  }
  return {};
}

}  // namespace

Result<std::vector<Operands>> run_cut(const CutCall& call, const std::vector<Operands>& inputs) {
  std::vector<Recorder> programs;
  std::vector<std::vector<Value>> results;
  for (int p = 0; p < call.num_parts; ++p) {
    programs.emplace_back(call, p, inputs[static_cast<std::size_t>(p)]);
    TR_ASSIGN_OR_RETURN(std::vector<Value> result, call.def.cut(programs.back()));
    if (result.size() != call.outputs.size())
      return error(Code::kInvalid, "cut: got {} values, expected {}", result.size(), call.outputs.size());
    results.push_back(std::move(result));
  }
  TR_RETURN_IF_ERROR(check_programs(programs));
  TR_RETURN_IF_ERROR(run_in_lock_step(programs));
  std::vector<Operands> outputs;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (results[p] != results[0]) return error(Code::kInvalid, "positions yield other nodes");
    Operands own;
    for (const Value v : results[p]) own.push_back(programs[p].value(v));
    outputs.push_back(std::move(own));
  }
  return outputs;
}

}  // namespace trireme::op::testing
