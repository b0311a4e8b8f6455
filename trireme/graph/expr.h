// Formulas: an Expr is a Value that knows its Builder, so that `relu(matmul(x, w) + b)` builds a graph.
//
//   Builder b(graph);
//   const Expr x{b, b.input("x", f32, {32, 784})}, w{b, b.variable("w", f32, {784, 10})};
//   const Expr y = softmax(matmul(x, w));
//
// Functions and operators broadcast as NumPy does; a number takes the dtype of the other operand. Failures
// stick in the Builder. Every node remembers the line of its formula. Ops without a function: apply(def,
// {...}).
#pragma once

#include <initializer_list>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

class Expr {
 public:
  Expr() = default;
  Expr(Builder& builder, Value value) : builder_(&builder), value_(value) {}

  Builder& builder() const { return *builder_; }
  Value value() const { return value_; }
  operator Value() const { return value_; }  // NOLINT(google-explicit-constructor): an Expr is a Value
  // Null after a failure: then there is no type.
  const TensorType& type() const { return builder_->type(value_); }
  const Shape& shape() const { return type().shape; }

 private:
  Builder* builder_ = nullptr;
  Value value_;
};

// The left operand of an operator, with the line that the operator stands on: operators take no default
// arguments, conversions do.
struct ExprAt {
  Expr expr;
  Site site;
  ExprAt(Expr e, Site s = Site::here()) : expr(e), site(s) {}  // NOLINT(google-explicit-constructor)
};

// Any op of the table; output 0 of several.
Expr apply(const OpDef& def, std::initializer_list<Expr> inputs, Attrs attrs = {}, Site site = Site::here());

Expr operator+(ExprAt a, Expr b);
Expr operator-(ExprAt a, Expr b);
Expr operator*(ExprAt a, Expr b);
Expr operator/(ExprAt a, Expr b);
Expr operator-(ExprAt a);
Expr operator+(ExprAt a, double b);
Expr operator-(ExprAt a, double b);
Expr operator*(ExprAt a, double b);
Expr operator/(ExprAt a, double b);
Expr operator+(double a, ExprAt b);
Expr operator-(double a, ExprAt b);
Expr operator*(double a, ExprAt b);
Expr operator/(double a, ExprAt b);

Expr exp(Expr x, Site site = Site::here());
Expr log(Expr x, Site site = Site::here());
Expr sqrt(Expr x, Site site = Site::here());
Expr square(Expr x, Site site = Site::here());
Expr relu(Expr x, Site site = Site::here());
Expr sigmoid(Expr x, Site site = Site::here());
Expr tanh(Expr x, Site site = Site::here());
Expr softmax(Expr x, Site site = Site::here());
Expr stop_gradient(Expr x, Site site = Site::here());
Expr matmul(Expr a, Expr b, Site site = Site::here());
Expr transpose(Expr x, Site site = Site::here());  // all dimensions in reverse
Expr reshape(Expr x, const Shape& shape, Site site = Site::here());
Expr cast(Expr x, DType dtype, Site site = Site::here());
// Over `axes`; none: all.
Expr sum(Expr x, std::vector<std::int64_t> axes = {}, bool keep_dims = false, Site site = Site::here());
Expr mean(Expr x, std::vector<std::int64_t> axes = {}, bool keep_dims = false, Site site = Site::here());

}  // namespace trireme::graph
