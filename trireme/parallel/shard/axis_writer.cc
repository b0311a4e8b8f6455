#include "trireme/parallel/shard/axis_writer.h"

#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/parallel/shard/axis_collective.h"

namespace trireme::parallel {
namespace {

using graph::Attrs;
using graph::Value;
using op::AxisCut;
using op::LayoutOption;

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

bool all_equal(const std::vector<std::int64_t>& sizes) {
  return std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
}

// What a rule builds a position's nodes with.
class PositionBuilder final : public op::CutBuilder {
 public:
  PositionBuilder(AxisWriter& writer, const graph::Node& node, const LayoutOption& option,
                  std::vector<Value> inputs)
      : writer_(writer), node_(node), option_(option), inputs_(std::move(inputs)) {}

  const LayoutOption& option() override { return option_; }
  const Attrs& attrs() override { return node_.attrs; }
  const TensorType& whole_input(int i) override {
    return writer_.from().type(node_.inputs[static_cast<std::size_t>(i)]);
  }
  const TensorType& whole_output(int k) override { return node_.outputs[static_cast<std::size_t>(k)]; }
  int num_parts() override { return writer_.axis().num_parts; }
  int position() override { return writer_.position(); }
  Value input(int i) override { return inputs_[static_cast<std::size_t>(i)]; }
  const TensorType& type(Value v) override { return writer_.to().type(v); }
  Value add(const op::OpDef& def, std::vector<Value> inputs, Attrs attrs) override {
    return made(writer_.add(def, std::move(inputs), std::move(attrs), node_.name));
  }
  Value begin_of(std::int64_t size) override {
    const Value position = made(writer_.position_value());
    return add(op::kPartBegin, {position}, {{"size", size}, {"parts", std::int64_t{num_parts()}}});
  }
  Value reduce(Value partial, int kind) override {
    const std::string reduction = kind == op::kPartialMax ? "max" : "sum";
    return collective(op::kAllreduce, partial, {{"reduction", reduction}});
  }
  Value window(Value part, int dim, std::int64_t size, std::vector<std::int64_t> begins,
               std::vector<std::int64_t> ends, double fill) override {
    const auto at = static_cast<std::size_t>(position());
    const std::int64_t extent = ends[at] - begins[at];
    return collective(op::kHaloExchange, part,
                      {{"world", std::int64_t{num_parts()}},
                       {"dim", std::int64_t{dim}},
                       {"sizes", op::part_sizes(size, num_parts())},
                       {"begins", std::move(begins)},
                       {"ends", std::move(ends)},
                       {"extent", extent},
                       {"fill", fill}});
  }

 private:
  Value collective(const op::OpDef& def, Value v, Attrs own) {
    return add(def, {v}, writer_.collective_attrs(node_.name, std::move(own)));
  }
  Value made(const Result<Value>& result) const {
    TR_CHECK(result.ok(), "the rule that cuts '{}': {}", node_.name, result.status().message());
    return *result;
  }

  AxisWriter& writer_;
  const graph::Node& node_;
  const LayoutOption& option_;
  const std::vector<Value> inputs_;
};

}  // namespace

Attrs part_attrs(const graph::Node& node, const LayoutOption& option, int num_parts, int position) {
  Attrs attrs = node.attrs;
  if (!node.def->shape_attr.empty() && option.outputs[0].cuts())
    attrs.set(std::string(node.def->shape_attr),
              dims_of(part_shape(option.outputs[0], node.outputs[0].shape, num_parts, position)));
  return attrs;
}

std::string position_input(const ShardAxis& axis) { return "position:" + axis.name; }

AxisWriter::AxisWriter(const graph::Graph& from, ShardAxis axis, int position)
    : rewriter_(from), axis_(std::move(axis)), position_(position), placed_(from) {}

Result<Value> AxisWriter::add(const graph::OpDef& def, std::vector<Value> inputs, Attrs attrs,
                              std::string_view name) {
  TR_ASSIGN_OR_RETURN(attrs, complete_attrs(def, std::move(attrs)));
  std::string key = fmt::format("{}(", def.name);
  for (const Value v : inputs) key += fmt::format("{}:{},", v.node, v.index);
  // What a collective is for is no part of what it does.
  Attrs does = attrs;
  if (does.find("label") != nullptr) does.set("label", std::string());
  graph::append_attrs(key, does);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  TR_ASSIGN_OR_RETURN(const Value v, rewriter_.add(def, std::move(inputs), std::move(attrs),
                                                   fmt::format("{}/{}/{}", name, axis_.name, def.name), ""));
  made_.emplace(std::move(key), v);
  return v;
}

Result<Value> AxisWriter::position_value() {
  const std::string name = position_input(axis_);
  if (const auto found = rewriter_.to().find_input(name)) return *found;
  return rewriter_.to().add(op::kInput, {}, {{"name", name}, {"dtype", DType::kI64}});
}

Attrs AxisWriter::collective_attrs(std::string_view label, Attrs own) const {
  own.set("axis", axis_.name);
  own.set("label", std::string(label));
  return own;
}

// Applies an op along a cut dimension: blocks are a dimension of their own meanwhile.
Result<Value> AxisWriter::along_blocks(const graph::OpDef& def, std::vector<Value> inputs, const AxisCut& cut,
                                       std::int64_t size, Attrs attrs, const std::string& name) {
  const std::int64_t block = size / cut.blocks;
  std::vector<std::int64_t> sizes = op::part_sizes(AxisCut(cut.dim, 1, cut.unit), block, axis_.num_parts);
  const int dim = cut.blocks > 1 ? cut.dim + 1 : cut.dim;
  attrs.set("dim", std::int64_t{dim});
  attrs.set(&def == &op::kTakePart ? "parts" : "world", std::int64_t{axis_.num_parts});
  if (!all_equal(sizes)) {
    if (&def != &op::kAllgather) attrs.set("extent", sizes[static_cast<std::size_t>(position_)]);
    attrs.set("sizes", std::move(sizes));
  }
  if (cut.blocks > 1) {
    std::vector<std::int64_t> dims = dims_of(to().type(inputs[0]).shape);
    dims[static_cast<std::size_t>(cut.dim)] /= cut.blocks;
    dims.insert(dims.begin() + cut.dim, cut.blocks);
    TR_ASSIGN_OR_RETURN(inputs[0], add(op::kReshape, {inputs[0]}, {{"shape", std::move(dims)}}, name));
  }
  TR_ASSIGN_OR_RETURN(const Value made, add(def, std::move(inputs), std::move(attrs), name));
  if (cut.blocks == 1) return made;
  std::vector<std::int64_t> dims = dims_of(to().type(made).shape);
  dims[static_cast<std::size_t>(dim)] *= cut.blocks;
  dims.erase(dims.begin() + cut.dim);
  return add(op::kReshape, {made}, {{"shape", std::move(dims)}}, name);
}

Result<Value> AxisWriter::all_to_all(Value v, const TensorType& whole, int from, int to,
                                     const std::string& name) {
  std::vector<std::int64_t> sizes_from = op::part_sizes(whole.shape[from], axis_.num_parts);
  std::vector<std::int64_t> sizes_to = op::part_sizes(whole.shape[to], axis_.num_parts);
  Attrs attrs{
      {"world", std::int64_t{axis_.num_parts}}, {"from", std::int64_t{from}}, {"to", std::int64_t{to}}};
  if (!all_equal(sizes_from)) attrs.set("sizes_from", std::move(sizes_from));
  if (!all_equal(sizes_to)) {
    attrs.set("extent", sizes_to[static_cast<std::size_t>(position_)]);
    attrs.set("sizes_to", std::move(sizes_to));
  }
  return add(op::kAllToAll, {v}, collective_attrs(name, std::move(attrs)), name);
}

Result<Value> AxisWriter::step(ReshardStep step, Value v, const TensorType& whole, const AxisCut& from,
                               const AxisCut& to, const std::string& name) {
  const Attrs along = collective_attrs(name, {});
  switch (step) {
    case ReshardStep::kAllreduce:
      return add(op::kAllreduce, {v}, along, name);
    case ReshardStep::kAllreduceMax:
      return add(op::kAllreduce, {v}, collective_attrs(name, {{"reduction", std::string("max")}}), name);
    case ReshardStep::kAllgather:
      return along_blocks(op::kAllgather, {v}, from, whole.shape[from.dim], along, name);
    case ReshardStep::kReduceScatter:
      return along_blocks(op::kReduceScatter, {v}, to, whole.shape[to.dim], along, name);
    case ReshardStep::kAllToAll:
      return all_to_all(v, whole, from.dim, to.dim, name);
    case ReshardStep::kTakePart:
      break;
  }
  TR_ASSIGN_OR_RETURN(const Value position, position_value());
  return along_blocks(op::kTakePart, {v, position}, to, whole.shape[to.dim], {}, name);
}

// A node that was there before serves another move, and is told once.
void AxisWriter::note_moves(std::int32_t first, const PlacedMove& move) {
  for (std::int32_t id = first; id < to().size(); ++id) {
    const graph::Node& node = to().node(id);
    if (node.def == &op::kTakePart || is_collective_along(node, axis_.name)) moves_.emplace(id, move);
  }
}

Result<Value> AxisWriter::in_layout(Value whole, const AxisCut& to) {
  std::vector<Placed>& places = placed_[whole];
  TR_CHECK(!places.empty(), "node {} was not put", whole.node);
  for (const Placed& p : places)
    if (p.cut == to) return p.value;
  const graph::Node& node = from().node(whole.node);
  const TensorType& type = from().type(whole);
  const ReshardPath path = path_of(places[0].cut, to, type.dtype);
  if (!path.is_possible)
    return error(Code::kInvalid, "[parallel] '{}' cannot be had as {} on axis '{}' where it is {}", node.name,
                 to.to_text(), axis_.name, places[0].cut.to_text());
  Value v = places[0].value;
  const std::int32_t first = this->to().size();
  for (const ReshardStep one : path.steps) {
    TR_ASSIGN_OR_RETURN(v, step(one, v, type, places[0].cut, to, node.name));
  }
  note_moves(first, {whole, places[0].cut, to});
  places.push_back({v, to});
  return v;
}

Status AxisWriter::put_rewritten(std::int32_t id, const LayoutOption& option, std::vector<Value> inputs) {
  const graph::Node& node = from().node(id);
  TR_CHECK(node.def->cut != nullptr, "op '{}' has options that are rewritten, and no rule", node.def->name);
  PositionBuilder builder(*this, node, option, std::move(inputs));
  TR_ASSIGN_OR_RETURN(const std::vector<Value> made, node.def->cut(builder));
  for (std::size_t k = 0; k < made.size(); ++k) {
    const Value old{id, static_cast<std::int32_t>(k)};
    rewriter_.map(old, made[k]);
    placed_[old].push_back({made[k], option.outputs[k]});
  }
  return {};
}

Status AxisWriter::put(std::int32_t id, const LayoutOption& option) {
  const graph::Node& node = from().node(id);
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    TR_ASSIGN_OR_RETURN(const Value v, in_layout(node.inputs[i], option.inputs[i]));
    inputs.push_back(v);
  }
  if (option.rewritten) return put_rewritten(id, option, std::move(inputs));
  TR_RETURN_IF_ERROR(
      rewriter_.copy(id, std::move(inputs), part_attrs(node, option, axis_.num_parts, position_)).status());
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const Value old{id, static_cast<std::int32_t>(k)};
    placed_[old].push_back({rewriter_.at(old), option.outputs[k]});
    const TensorType expected = part_type(option.outputs[k], node.outputs[k], axis_.num_parts, position_);
    TR_CHECK(to().type(rewriter_.at(old)) == expected, "part of '{}' on axis '{}': got {}, expected {}",
             node.name, axis_.name, to().type(rewriter_.at(old)).to_string(), expected.to_string());
  }
  return {};
}

Result<graph::Graph> AxisWriter::finish(const std::vector<AxisCut>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, v] = from().outputs()[i];
    TR_ASSIGN_OR_RETURN(const Value now, in_layout(v, outputs[i]));
    rewriter_.to().set_output(name, now);
  }
  graph::Graph made = rewriter_.to();
  TR_RETURN_IF_ERROR(graph::verify(made));
  return made;
}

}  // namespace trireme::parallel
