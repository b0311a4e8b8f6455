#include "trireme/graph/builder.h"

#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

}  // namespace

Value Builder::add_node(const OpDef& def, std::vector<Value> inputs, Attrs attrs, std::string_view name,
                        Site site) {
  if (!status_.ok()) return {};
  Result<Value> v = graph_.add(def, std::move(inputs), std::move(attrs), name, site.to_string());
  if (!v.ok()) {
    status_ = v.status();
    return {};
  }
  return *v;
}

Value Builder::input(std::string_view name, DType dtype, const Shape& shape, Site site) {
  return add_node(op::kInput, {}, {{"name", std::string(name)}, {"dtype", dtype}, {"shape", dims_of(shape)}},
                  "", site);
}
Value Builder::variable(std::string_view name, DType dtype, const Shape& shape, Site site) {
  return add_node(op::kVariable, {},
                  {{"name", graph_.scope().append(name)}, {"dtype", dtype}, {"shape", dims_of(shape)}}, "",
                  site);
}
Value Builder::fill(double value, DType dtype, const Shape& shape, Site site) {
  return add_node(op::kFill, {}, {{"value", value}, {"dtype", dtype}, {"shape", dims_of(shape)}}, "", site);
}
Value Builder::add(Value a, Value b, Site site) { return add_node(op::kAdd, {a, b}, {}, "", site); }
Value Builder::sub(Value a, Value b, Site site) { return add_node(op::kSub, {a, b}, {}, "", site); }
Value Builder::mul(Value a, Value b, Site site) { return add_node(op::kMul, {a, b}, {}, "", site); }
Value Builder::relu(Value x, Site site) { return add_node(op::kRelu, {x}, {}, "", site); }
Value Builder::sigmoid(Value x, Site site) { return add_node(op::kSigmoid, {x}, {}, "", site); }
Value Builder::tanh(Value x, Site site) { return add_node(op::kTanh, {x}, {}, "", site); }
Value Builder::matmul(Value a, Value b, bool transpose_a, bool transpose_b, Site site) {
  return add_node(op::kMatmul, {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}, "",
                  site);
}
Value Builder::bias_add(Value x, Value bias, Site site) {
  return add_node(op::kBiasAdd, {x, bias}, {}, "", site);
}
Value Builder::conv2d(Value x, Value filter, std::int64_t stride, std::int64_t padding, Site site) {
  return add_node(op::kConv2d, {x, filter},
                  {{"stride_h", stride}, {"stride_w", stride}, {"pad_h", padding}, {"pad_w", padding}}, "",
                  site);
}
Value Builder::max_pool2d(Value x, std::int64_t window, std::int64_t stride, Site site) {
  return add_node(op::kMaxPool2d, {x},
                  {{"window_h", window}, {"window_w", window}, {"stride_h", stride}, {"stride_w", stride}},
                  "", site);
}
Value Builder::reshape(Value x, const Shape& shape, Site site) {
  return add_node(op::kReshape, {x}, {{"shape", dims_of(shape)}}, "", site);
}
Value Builder::sum(Value x, Site site) { return add_node(op::kSum, {x}, {}, "", site); }
Value Builder::dropout(Value x, Value key, Value step, Value sample_ids, double rate, std::int64_t stream,
                       Site site) {
  return add_node(op::kDropout, {x, key, step, sample_ids}, {{"rate", rate}, {"stream", stream}}, "", site);
}
Value Builder::softmax_cross_entropy(Value logits, Value labels, Value weights, Site site) {
  return add_node(op::kSoftmaxCrossEntropy, {logits, labels, weights}, {}, "", site);
}
Value Builder::stop_gradient(Value x, Site site) { return add_node(op::kStopGradient, {x}, {}, "", site); }

void Builder::output(std::string name, Value v) {
  if (status_.ok()) graph_.set_output(std::move(name), v);
}

}  // namespace trireme::graph
