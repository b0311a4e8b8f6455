#include "trireme/model/layers.h"

#include <cmath>

namespace trireme::model {

using graph::Value;

namespace {
// He initialisation (He et al. 2015) in its uniform form: variance 2 / fan_in.
double he_bound(std::int64_t fan_in) { return std::sqrt(6.0 / static_cast<double>(fan_in)); }
}  // namespace

Value LayerBuilder::parameter(std::string_view name, const Shape& shape, double bound) {
  const Value v = b_.variable(name, DType::kF32, shape);
  if (!v.is_null())
    parameters_.push_back({b_.graph().node(v.node).attrs.get_text("name"), {DType::kF32, shape}, bound});
  return v;
}

Value LayerBuilder::scalar_input(std::string_view name) {
  const auto found = b_.graph().find_input(name);
  return found ? *found : b_.input(name, DType::kI64, Shape{});
}

Value LayerBuilder::flatten(Value x) {
  if (x.is_null()) return x;
  const Shape& shape = b_.type(x).shape;
  if (shape.rank() == 2) return x;
  const std::int64_t n = shape[0];
  return b_.reshape(x, {n, n == 0 ? 0 : shape.num_elems() / n});
}

Value LayerBuilder::dense(std::string_view name, Value x, std::int64_t out) {
  b_.graph().push_scope(name);
  x = flatten(x);
  Value y;
  if (!x.is_null()) {
    const std::int64_t in = b_.type(x).shape[1];
    const Value w = parameter("weight", {out, in}, he_bound(in));
    const Value bias = parameter("bias", {out}, 0);
    y = b_.bias_add(b_.matmul(x, w, false, true), bias);
  }
  b_.graph().pop_scope();
  return y;
}

Value LayerBuilder::conv2d(std::string_view name, Value x, std::int64_t out_channels, std::int64_t window,
                           std::int64_t stride, std::int64_t padding) {
  b_.graph().push_scope(name);
  Value y;
  if (!x.is_null()) {
    const std::int64_t in = b_.type(x).shape[1];
    const Value w = parameter("weight", {out_channels, in, window, window}, he_bound(in * window * window));
    const Value bias = parameter("bias", {out_channels}, 0);
    y = b_.bias_add(b_.conv2d(x, w, stride, padding), bias);
  }
  b_.graph().pop_scope();
  return y;
}

Value LayerBuilder::dropout(std::string_view name, Value x, double rate) {
  const std::int64_t stream = next_stream_++;
  if (!training_ || rate == 0 || x.is_null()) return x;
  const std::int64_t n = b_.type(x).shape[0];
  const auto found = b_.graph().find_input("sample_ids");
  const Value ids = found ? *found : b_.input("sample_ids", DType::kI64, {n});
  const Value key = scalar_input("key");
  const Value step = scalar_input("step");
  b_.graph().push_scope(name);
  const Value y = b_.dropout(x, key, step, ids, rate, stream);
  b_.graph().pop_scope();
  return y;
}

}  // namespace trireme::model
