#include "trireme/graph/expr.h"

namespace trireme::graph {
namespace {

Expr unary(const OpDef& def, Expr x, Site site, Attrs attrs = {}) {
  return {x.builder(), x.builder().add_node(def, {x}, std::move(attrs), "", site)};
}
Expr binary(const OpDef& def, Expr a, Expr b, Site site) {
  return {a.builder(), a.builder().add_node(def, {a, b}, {}, "", site)};
}
// A number as a scalar of x's dtype; broadcasting does the rest.
Expr number(Expr x, double value, Site site) {
  Builder& b = x.builder();
  if (!b.status().ok()) return {b, {}};
  return {b, b.fill(value, x.type().dtype, {}, site)};
}
Attrs reduce_attrs(std::vector<std::int64_t> axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

}  // namespace

Expr apply(const OpDef& def, std::initializer_list<Expr> inputs, Attrs attrs, Site site) {
  TR_CHECK(inputs.size() > 0, "apply needs an input; use the Builder for {}", def.name);
  Builder& b = inputs.begin()->builder();
  return {b, b.add_node(def, {inputs.begin(), inputs.end()}, std::move(attrs), "", site)};
}

Expr operator+(ExprAt a, Expr b) { return binary(op::kAdd, a.expr, b, a.site); }
Expr operator-(ExprAt a, Expr b) { return binary(op::kSub, a.expr, b, a.site); }
Expr operator*(ExprAt a, Expr b) { return binary(op::kMul, a.expr, b, a.site); }
Expr operator/(ExprAt a, Expr b) { return binary(op::kDiv, a.expr, b, a.site); }
Expr operator-(ExprAt a) { return unary(op::kNeg, a.expr, a.site); }
Expr operator+(ExprAt a, double b) { return binary(op::kAdd, a.expr, number(a.expr, b, a.site), a.site); }
Expr operator-(ExprAt a, double b) { return binary(op::kSub, a.expr, number(a.expr, b, a.site), a.site); }
Expr operator*(ExprAt a, double b) { return unary(op::kScale, a.expr, a.site, {{"factor", b}}); }
Expr operator/(ExprAt a, double b) { return binary(op::kDiv, a.expr, number(a.expr, b, a.site), a.site); }
Expr operator+(double a, ExprAt b) { return binary(op::kAdd, number(b.expr, a, b.site), b.expr, b.site); }
Expr operator-(double a, ExprAt b) { return binary(op::kSub, number(b.expr, a, b.site), b.expr, b.site); }
Expr operator*(double a, ExprAt b) { return unary(op::kScale, b.expr, b.site, {{"factor", a}}); }
Expr operator/(double a, ExprAt b) { return binary(op::kDiv, number(b.expr, a, b.site), b.expr, b.site); }

Expr exp(Expr x, Site site) { return unary(op::kExp, x, site); }
Expr log(Expr x, Site site) { return unary(op::kLog, x, site); }
Expr sqrt(Expr x, Site site) { return unary(op::kSqrt, x, site); }
Expr square(Expr x, Site site) { return unary(op::kSquare, x, site); }
Expr relu(Expr x, Site site) { return unary(op::kRelu, x, site); }
Expr sigmoid(Expr x, Site site) { return unary(op::kSigmoid, x, site); }
Expr tanh(Expr x, Site site) { return unary(op::kTanh, x, site); }
Expr softmax(Expr x, Site site) { return unary(op::kSoftmax, x, site); }
Expr stop_gradient(Expr x, Site site) { return unary(op::kStopGradient, x, site); }
Expr matmul(Expr a, Expr b, Site site) { return binary(op::kMatmul, a, b, site); }
Expr transpose(Expr x, Site site) { return unary(op::kTranspose, x, site); }
Expr reshape(Expr x, const Shape& shape, Site site) {
  return unary(op::kReshape, x, site,
               {{"shape", std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())}});
}
Expr cast(Expr x, DType dtype, Site site) { return unary(op::kCast, x, site, {{"dtype", dtype}}); }
Expr sum(Expr x, std::vector<std::int64_t> axes, bool keep_dims, Site site) {
  return unary(op::kSum, x, site, reduce_attrs(std::move(axes), keep_dims));
}
Expr mean(Expr x, std::vector<std::int64_t> axes, bool keep_dims, Site site) {
  return unary(op::kMean, x, site, reduce_attrs(std::move(axes), keep_dims));
}

}  // namespace trireme::graph
