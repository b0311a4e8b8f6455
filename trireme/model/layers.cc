#include "trireme/model/layers.h"

#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Value;

namespace {
std::vector<std::int64_t> ints(std::initializer_list<std::int64_t> values) { return values; }

op::Attrs window_attrs(const ConvSpec& s) {
  return {{"stride_h", s.stride},     {"stride_w", s.stride},     {"pad_h", s.padding}, {"pad_w", s.padding},
          {"dilation_h", s.dilation}, {"dilation_w", s.dilation}, {"groups", s.groups}};
}
}  // namespace

Value LayerBuilder::fail(Status status) {
  if (this->status().ok()) status_ = std::move(status);
  return {};
}

void LayerBuilder::explain(std::string_view prefix) {
  if (!status().ok()) status_ = status().with_prefix(prefix);
}

bool LayerBuilder::usable(std::string_view layer, Value x, int rank) {
  if (x.is_null() || !status().ok()) return false;
  if (b_.type(x).shape.rank() >= rank) return true;
  fail(error(Code::kInvalid, "[model] layer '{}{}': got x {}, expected at least {} dimensions",
             b_.graph().scope(), layer, b_.type(x).to_string(), rank));
  return false;
}

Value LayerBuilder::parameter(std::string_view name, const Shape& shape, std::string_view init, Fans fans) {
  const Result<Init> start = find_init(init, fans);
  if (!start.ok()) return fail(start.status());
  const Value v = b_.variable(name, DType::kF32, shape);
  if (!v.is_null())
    parameters_.push_back(
        {b_.graph().node(v.node).attrs.get_text("name"), {DType::kF32, shape}, start->bound, start->kind});
  return v;
}

Value LayerBuilder::zeros(std::string_view name, const Shape& shape) {
  return parameter(name, shape, "zeros", {});
}

Value LayerBuilder::scalar_input(std::string_view name) {
  const auto found = b_.graph().find_input(name);
  return found ? *found : b_.input(name, DType::kI64, Shape{});
}

Value LayerBuilder::flatten(Value x) {
  if (!usable("flatten", x, 1)) return {};
  const Shape& shape = b_.type(x).shape;
  if (shape.rank() == 2) return x;
  const std::int64_t n = shape[0];
  return b_.reshape(x, {n, n == 0 ? 0 : shape.num_elems() / n});
}

Value LayerBuilder::dense(std::string_view name, Value x, std::int64_t out, bool bias) {
  x = flatten(x);
  if (!usable(name, x, 2)) return {};
  const Scope scope(*this, name);
  const std::int64_t in = b_.type(x).shape[1];
  const Value w = parameter("weight", {out, in}, init_, {in, out});
  const Value b = bias ? zeros("bias", {out}) : Value{};
  const Value y = b_.matmul(x, w, false, true);
  return bias ? b_.bias_add(y, b) : y;
}

Value LayerBuilder::linear(std::string_view name, Value x, std::int64_t out, bool bias) {
  if (!usable(name, x, 2)) return {};
  const Shape shape = b_.type(x).shape;
  const std::int64_t in = shape.dim(-1);
  if (shape.rank() > 2) x = b_.reshape(x, {in == 0 ? 0 : shape.num_elems() / in, in});
  Value y = dense(name, x, out, bias);
  if (shape.rank() == 2 || y.is_null()) return y;
  Shape wide = shape;
  wide.set(shape.rank() - 1, out);
  return b_.reshape(y, wide);
}

Value LayerBuilder::conv2d(std::string_view name, Value x, std::int64_t out_channels, std::int64_t window,
                           std::int64_t stride, std::int64_t padding) {
  return conv2d(name, x, {.out = out_channels, .window = window, .stride = stride, .padding = padding});
}

Value LayerBuilder::conv2d(std::string_view name, Value x, const ConvSpec& s) {
  if (!usable(name, x, 4)) return {};
  const Scope scope(*this, name);
  const std::int64_t in = b_.type(x).shape[1];
  if (s.groups < 1 || in % s.groups != 0 || s.out % s.groups != 0)
    return fail(error(Code::kInvalid,
                      "[model] layer '{}': got {} groups for {} and {} channels, expected a common divisor",
                      b_.graph().scope(), s.groups, in, s.out));
  const std::int64_t taps = s.window * s.window, own = in / s.groups;
  const Value w =
      parameter("weight", {s.out, own, s.window, s.window}, init_, {own * taps, s.out / s.groups * taps});
  const Value bias = s.bias ? zeros("bias", {s.out}) : Value{};
  const Value y = b_.add_node(op::kConv2d, {x, w}, window_attrs(s));
  return s.bias ? b_.bias_add(y, bias) : y;
}

Value LayerBuilder::locally_connected(std::string_view name, Value x, const ConvSpec& s) {
  if (!usable(name, x, 4)) return {};
  const Scope scope(*this, name);
  const Shape shape = b_.type(x).shape;
  const std::int64_t in = shape[1], span = (s.window - 1) * s.dilation + 1;
  const std::int64_t room_h = shape[2] + 2 * s.padding - span, room_w = shape[3] + 2 * s.padding - span;
  if (room_h < 0 || room_w < 0 || s.stride < 1 || s.groups < 1 || in % s.groups != 0)
    return fail(error(Code::kInvalid,
                      "[model] layer '{}': a window of {} does not fit {}, stride {}, groups {}",
                      b_.graph().scope(), s.window, shape.to_string(), s.stride, s.groups));
  const std::int64_t h = room_h / s.stride + 1, w = room_w / s.stride + 1, taps = s.window * s.window;
  const Value filter = parameter("weight", {h, w, s.out, in / s.groups, s.window, s.window}, init_,
                                 {in / s.groups * taps, s.out / s.groups * taps});
  const Value bias = s.bias ? zeros("bias", {s.out, h, w}) : Value{};
  const Value y = b_.add_node(op::kLocallyConnected2d, {x, filter}, window_attrs(s));
  return s.bias ? b_.add(y, bias) : y;
}

Value LayerBuilder::pool(const op::OpDef& def, Value x, const PoolSpec& s) {
  if (!usable(def.name, x, 4)) return {};
  return b_.add_node(def, {x},
                     {{"window_h", s.window},
                      {"window_w", s.window},
                      {"stride_h", s.stride},
                      {"stride_w", s.stride},
                      {"pad_h", s.padding},
                      {"pad_w", s.padding}});
}
Value LayerBuilder::max_pool(Value x, const PoolSpec& spec) { return pool(op::kMaxPool2d, x, spec); }
Value LayerBuilder::avg_pool(Value x, const PoolSpec& spec) { return pool(op::kAvgPool2d, x, spec); }
Value LayerBuilder::l2_pool(Value x, const PoolSpec& spec) { return pool(op::kL2Pool2d, x, spec); }

Value LayerBuilder::global_avg_pool(Value x) {
  if (!usable("global_avg_pool", x, 4)) return {};
  return b_.add_node(op::kMean, {x}, {{"axes", ints({2, 3})}});
}

Value LayerBuilder::dropout(std::string_view name, Value x, double rate) {
  const std::int64_t stream = next_stream_++;
  if (!training_ || rate == 0) return x;
  if (!usable(name, x, 1)) return {};
  const std::int64_t n = b_.type(x).shape[0];
  const auto found = b_.graph().find_input("sample_ids");
  const Value ids = found ? *found : b_.input("sample_ids", DType::kI64, {n});
  const Value key = scalar_input("key");
  const Value step = scalar_input("step");
  const Scope scope(*this, name);
  return b_.dropout(x, key, step, ids, rate, stream);
}

void LayerBuilder::penalty(Value per_sample) {
  if (usable("penalty", per_sample, 1)) penalties_.push_back(per_sample);
}

}  // namespace trireme::model
