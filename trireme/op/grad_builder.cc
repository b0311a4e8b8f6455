// Shorthands of GradBuilder, all on top of add().
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
std::vector<std::int64_t> dims_of(const Shape& s) { return {s.dims().begin(), s.dims().end()}; }

Value constant_like(GradBuilder& g, Value a, double value) {
  const TensorType t = g.type(a);
  return g.add(kFill, {}, {{"value", value}, {"dtype", t.dtype}, {"shape", dims_of(t.shape)}});
}
}  // namespace

Value GradBuilder::mul(Value a, Value b) { return add(kMul, {a, b}); }
Value GradBuilder::sub(Value a, Value b) { return add(kSub, {a, b}); }
Value GradBuilder::sum(Value a, Value b) { return add(kAdd, {a, b}); }
Value GradBuilder::neg(Value a) { return add(kNeg, {a}); }
Value GradBuilder::scale(Value a, double factor) { return add(kScale, {a}, {{"factor", factor}}); }
Value GradBuilder::zeros_like(Value a) { return constant_like(*this, a, 0.0); }
Value GradBuilder::ones_like(Value a) { return constant_like(*this, a, 1.0); }

Value GradBuilder::reduce_to_shape_of(Value g, Value like) {
  const Shape from = type(g).shape, to = type(like).shape;
  if (from == to) return g;
  const int lead = from.rank() - to.rank();
  TR_CHECK(lead >= 0, "{} reduced to {}", from.to_string(), to.to_string());
  std::vector<std::int64_t> axes;
  bool inner = false;
  for (int d = 0; d < from.rank(); ++d) {
    if (d >= lead && from[d] == to[d - lead]) continue;
    TR_CHECK(d < lead || to[d - lead] == 1, "{} reduced to {}", from.to_string(), to.to_string());
    axes.push_back(d);
    inner = inner || d >= lead;
  }
  const Value summed = add(kSum, {g}, {{"axes", axes}, {"keep_dims", inner}});
  return type(summed).shape == to ? summed : add(kReshape, {summed}, {{"shape", dims_of(to)}});
}

}  // namespace trireme::op
