// Shorthands for gradient functions that are compositions of other ops.
#pragma once

#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op::detail {

// A scalar of `like`'s dtype, to be broadcast.
inline Value scalar(GradBuilder& g, Value like, double value) {
  return g.add(kFill, {},
               {{"value", value}, {"dtype", g.type(like).dtype}, {"shape", std::vector<std::int64_t>{}}});
}
inline Value plus(GradBuilder& g, Value a, double c) { return g.sum(a, scalar(g, a, c)); }
// a + b where either may be null.
inline Value sum_of(GradBuilder& g, Value a, Value b) {
  return a.is_null() ? b : b.is_null() ? a : g.sum(a, b);
}
inline Value quotient(GradBuilder& g, Value a, Value b) { return g.add(kDiv, {a, b}); }
inline Value sum_over(GradBuilder& g, Value a, const std::vector<std::int64_t>& axes) {
  return g.add(kSum, {a}, {{"axes", axes}, {"keep_dims", true}});
}
inline Value mean_over(GradBuilder& g, Value a, const std::vector<std::int64_t>& axes) {
  return g.add(kMean, {a}, {{"axes", axes}, {"keep_dims", true}});
}
inline Value shaped(GradBuilder& g, Value a, const Shape& shape) {
  return g.type(a).shape == shape ? a : g.add(kReshape, {a}, {{"shape", dims_of(shape)}});
}
inline Value broadcast(GradBuilder& g, Value a, const Shape& shape) {
  return g.type(a).shape == shape ? a : g.add(kBroadcastTo, {a}, {{"shape", dims_of(shape)}});
}
// 1 / sqrt(a + eps)
inline Value inverse_root(GradBuilder& g, Value a, double eps) {
  return quotient(g, scalar(g, a, 1), g.add(kSqrt, {plus(g, a, eps)}));
}

}  // namespace trireme::op::detail
