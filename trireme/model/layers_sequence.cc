// Layers over sequences: x [n, t, width], one row per token.
#include <cmath>

#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Value;

namespace {
op::Attrs order(std::initializer_list<std::int64_t> dims) {
  return {{"order", std::vector<std::int64_t>(dims)}};
}
}  // namespace

Value LayerBuilder::embedding(std::string_view name, Value ids, std::int64_t vocabulary, std::int64_t width) {
  if (!usable(name, ids, 1)) return {};
  const Scope scope(*this, name);
  const Value table = parameter("weight", {vocabulary, width}, init_, {width, vocabulary});
  return b_.add_node(op::kEmbedding, {table, ids});
}

Value LayerBuilder::tied(std::string_view name, Value x) {
  if (!usable(name, x, 2)) return {};
  const std::string path = fmt::format("{}{}/weight", b_.graph().scope(), name);
  const auto table = b_.graph().find_variable(path);
  if (!table) return fail(error(Code::kNotFound, "[model] tied: there is no parameter '{}'", path));
  const Shape shape = b_.type(x).shape;
  const std::int64_t in = shape.dim(-1);
  if (shape.rank() > 2) x = b_.reshape(x, {in == 0 ? 0 : shape.num_elems() / in, in});
  const Value y = b_.matmul(x, *table, false, true);
  if (shape.rank() == 2 || y.is_null()) return y;
  Shape wide = shape;
  wide.set(shape.rank() - 1, b_.type(*table).shape[0]);
  return b_.reshape(y, wide);
}

Value LayerBuilder::positions(std::string_view name, Value x) {
  if (!usable(name, x, 3)) return {};
  const Scope scope(*this, name);
  const Shape& shape = b_.type(x).shape;
  const Value table = parameter("weight", {shape[1], shape[2]}, init_, {shape[2], shape[1]});
  return b_.add(x, table);
}

Value LayerBuilder::attention(std::string_view name, Value x, std::int64_t heads, bool causal,
                              std::string_view out_init) {
  if (!usable(name, x, 3)) return {};
  const Shape shape = b_.type(x).shape;
  const std::int64_t n = shape[0], t = shape[1], width = shape[2];
  const Scope scope(*this, name);
  if (heads < 1 || width % heads != 0)
    return fail(error(Code::kInvalid, "[model] layer '{}': got {} heads for width {}, expected a divisor",
                      b_.graph().scope(), heads, width));
  const Value all = linear("qkv", x, 3 * width);
  if (all.is_null()) return {};
  const Value parts =
      b_.add_node(op::kSplit, {all},
                  {{"axis", std::int64_t{2}}, {"sizes", std::vector<std::int64_t>{width, width, width}}});
  std::vector<Value> qkv;
  for (std::int32_t i = 0; i < 3 && !parts.is_null(); ++i) {
    const Value split = b_.reshape({parts.node, i}, {n, t, heads, width / heads});
    qkv.push_back(b_.add_node(op::kTranspose, {split}, order({0, 2, 1, 3})));
  }
  Value y = b_.add_node(op::kAttention, qkv, {{"causal", causal}});
  y = b_.add_node(op::kTranspose, {y}, order({0, 2, 1, 3}));
  const std::string before = init_;
  if (!out_init.empty()) init_ = out_init;
  y = linear("out", b_.reshape(y, {n, t, width}), width);
  init_ = before;
  return y;
}

Value LayerBuilder::recurrent(std::string_view name, const op::OpDef& def, std::int64_t gates, Value x,
                              std::int64_t hidden) {
  if (!usable(name, x, 3)) return {};
  const Scope scope(*this, name);
  const Shape& shape = b_.type(x).shape;
  const std::int64_t n = shape[0], in = shape[2], rows = gates * hidden;
  if (hidden < 1)
    return fail(error(Code::kInvalid, "[model] layer '{}': got {} hidden units, expected at least 1",
                      b_.graph().scope(), hidden));
  const std::string init = fmt::format("uniform({})", 1 / std::sqrt(static_cast<double>(hidden)));
  std::vector<Value> inputs{b_.add_node(op::kTranspose, {x}, order({1, 0, 2}))};
  inputs.push_back(b_.fill(0, DType::kF32, {n, hidden}));
  if (&def == &op::kLstm) inputs.push_back(b_.fill(0, DType::kF32, {n, hidden}));
  inputs.push_back(parameter("weight_ih", {rows, in}, init, {}));
  inputs.push_back(parameter("weight_hh", {rows, hidden}, init, {}));
  inputs.push_back(parameter("bias_ih", {rows}, init, {}));
  inputs.push_back(parameter("bias_hh", {rows}, init, {}));
  const Value states = b_.add_node(def, inputs);
  return b_.add_node(op::kTranspose, {states}, order({1, 0, 2}));
}

Value LayerBuilder::rnn(std::string_view name, Value x, std::int64_t hidden) {
  return recurrent(name, op::kRnn, 1, x, hidden);
}
Value LayerBuilder::lstm(std::string_view name, Value x, std::int64_t hidden) {
  return recurrent(name, op::kLstm, 4, x, hidden);
}
Value LayerBuilder::gru(std::string_view name, Value x, std::int64_t hidden) {
  return recurrent(name, op::kGru, 3, x, hidden);
}

}  // namespace trireme::model
