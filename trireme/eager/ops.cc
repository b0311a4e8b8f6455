#include "trireme/eager/ops.h"

#include "trireme/eager/context.h"
#include "trireme/eager/state.h"
#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Array one(const op::OpDef& def, std::initializer_list<Array> inputs, op::Attrs attrs = {}) {
  return apply(def, std::span(inputs.begin(), inputs.size()), std::move(attrs));
}

// A scalar of the element type of `like`.
Array scalar(double value, const Array& like) {
  if (!like.ok() || like.context() == nullptr) return like;
  return like.context()->full(value, {like.dtype(), {}});
}

op::Attrs reduce_attrs(std::vector<std::int64_t> axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

}  // namespace

std::vector<Array> apply_all(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  for (const Array& a : inputs)
    if (a.context() != nullptr) return a.context()->apply(def, inputs, std::move(attrs));
  auto state = std::make_shared<ArrayState>();
  state->status =
      error(Code::kInvalid, "[eager] {}: got only empty Arrays, expected values; make them with a Context",
            def.name);
  return {Array(std::move(state))};
}

Array apply(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  return apply_all(def, inputs, std::move(attrs))[0];
}

Array operator+(const Array& a, const Array& b) { return one(op::kAdd, {a, b}); }
Array operator-(const Array& a, const Array& b) { return one(op::kSub, {a, b}); }
Array operator*(const Array& a, const Array& b) { return one(op::kMul, {a, b}); }
Array operator/(const Array& a, const Array& b) { return one(op::kDiv, {a, b}); }
Array operator-(const Array& a) { return one(op::kNeg, {a}); }
Array operator+(const Array& a, double b) { return a + scalar(b, a); }
Array operator+(double a, const Array& b) { return scalar(a, b) + b; }
Array operator-(const Array& a, double b) { return a - scalar(b, a); }
Array operator-(double a, const Array& b) { return scalar(a, b) - b; }
Array operator*(const Array& a, double b) { return one(op::kScale, {a}, {{"factor", b}}); }
Array operator*(double a, const Array& b) { return b * a; }
Array operator/(const Array& a, double b) { return a / scalar(b, a); }
Array operator/(double a, const Array& b) { return scalar(a, b) / b; }
Array exp(const Array& x) { return one(op::kExp, {x}); }
Array log(const Array& x) { return one(op::kLog, {x}); }
Array sqrt(const Array& x) { return one(op::kSqrt, {x}); }
Array square(const Array& x) { return one(op::kSquare, {x}); }
Array relu(const Array& x) { return one(op::kRelu, {x}); }
Array sigmoid(const Array& x) { return one(op::kSigmoid, {x}); }
Array tanh(const Array& x) { return one(op::kTanh, {x}); }
Array cast(const Array& x, DType dtype) { return one(op::kCast, {x}, {{"dtype", dtype}}); }

Array sum(const Array& x, std::vector<std::int64_t> axes, bool keep_dims) {
  return one(op::kSum, {x}, reduce_attrs(std::move(axes), keep_dims));
}
Array mean(const Array& x, std::vector<std::int64_t> axes, bool keep_dims) {
  return one(op::kMean, {x}, reduce_attrs(std::move(axes), keep_dims));
}
Array max(const Array& x, std::vector<std::int64_t> axes, bool keep_dims) {
  return one(op::kMax, {x}, reduce_attrs(std::move(axes), keep_dims));
}

Array reshape(const Array& x, const Shape& shape) {
  return one(op::kReshape, {x}, {{"shape", dims_of(shape)}});
}
Array transpose(const Array& x, std::vector<std::int64_t> order) {
  return one(op::kTranspose, {x}, {{"order", std::move(order)}});
}
Array matmul(const Array& a, const Array& b, bool transpose_a, bool transpose_b) {
  return one(op::kMatmul, {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}
Array bias_add(const Array& x, const Array& bias) { return one(op::kBiasAdd, {x, bias}); }
Array conv2d(const Array& x, const Array& filter, std::int64_t stride, std::int64_t padding) {
  return one(op::kConv2d, {x, filter},
             {{"stride_h", stride}, {"stride_w", stride}, {"pad_h", padding}, {"pad_w", padding}});
}
Array max_pool2d(const Array& x, std::int64_t window, std::int64_t stride) {
  return one(op::kMaxPool2d, {x},
             {{"window_h", window}, {"window_w", window}, {"stride_h", stride}, {"stride_w", stride}});
}
Array softmax(const Array& x) { return one(op::kSoftmax, {x}); }
Array softmax_cross_entropy(const Array& logits, const Array& labels, const Array& weights) {
  return one(op::kSoftmaxCrossEntropy, {logits, labels, weights});
}

Array assign(const Array& parameter, const Array& value) { return one(op::kAssign, {parameter, value}); }
Array assign_add(const Array& parameter, const Array& value) {
  return one(op::kAssignAdd, {parameter, value});
}
Array apply_sgd(const Array& parameter, const Array& grad, double lr) {
  return one(op::kApplySgd, {parameter, grad, scalar(lr, parameter)});
}
Array apply_momentum(const Array& parameter, const Array& velocity, const Array& grad, double lr,
                     double momentum) {
  return one(op::kApplyMomentum, {parameter, velocity, grad, scalar(lr, parameter)},
             {{"momentum", momentum}});
}

}  // namespace trireme::eager
