// Gradients of normalisation as graphs.
#include "trireme/op/nn/expr.h"
#include "trireme/op/nn/norm.h"

namespace trireme::op::detail {

// The statistics are outputs too: mean spreads its gradient evenly, var gives 2 (x - mean) / count of its
// own.
Grads norm_grads(GradBuilder& g, const NormView& v, const OpDef& grad_op) {
  const Value x = g.input(0), dy = g.grad_output(0), dmean = g.grad_output(1), dvar = g.grad_output(2);
  Grads grads(3);
  if (!dy.is_null()) {
    const Value all = g.add(grad_op, {x, g.input(1), g.output(1), g.output(2), dy}, g.attrs());
    for (int i = 0; i < 3; ++i) {
      if (g.needs_grad(i)) grads[idx(i)] = Value{all.node, i};
    }
  }
  if (!g.needs_grad(0) || (dmean.is_null() && dvar.is_null())) return grads;
  const Value count = g.add(kCount, {x}, {{"axes", v.axes()}});
  Value spread;
  if (!dmean.is_null()) spread = shaped(g, dmean, v.group_column());
  if (!dvar.is_null()) {
    const Value off = g.sub(x, shaped(g, g.output(1), v.group_column()));
    spread = sum_of(g, spread, g.scale(g.mul(off, shaped(g, dvar, v.group_column())), 2));
  }
  grads[0] = sum_of(g, grads[0], broadcast(g, quotient(g, spread, count), v.x));
  return grads;
}

// Let u, us, ub be the gradients of dx, dscale, dbias; v = inv u, and P(a) = a - mean(a) - xh mean(a xh), so
// that dx = inv P(g). P is its own adjoint. Then
//   d(dy)    = scale P(v) + us xh + ub          d(scale) = sum of P(v) dy
//   d(xh)    = us dy - v mean(g xh) - g mean(v xh)
//   d(x)     = inv d(xh)                        d(mean)  = -inv sum of d(xh)
//   d(inv)   = sum of d(xh) (x - mean) + sum of u P(g)
//   d(var)   = -inv^3 / 2 d(inv)
Grads norm_grad_grads(GradBuilder& g, const NormView& v) {
  const Value x = g.input(0), dy = g.input(4), u = g.grad_output(0);
  const auto axes = v.axes();
  const Value scale = shaped(g, g.input(1), v.scale_column());
  const Value off = g.sub(x, shaped(g, g.input(2), v.group_column()));
  const Value inv = inverse_root(g, shaped(g, g.input(3), v.group_column()), g.attrs().get_float("eps"));
  const Value xh = g.mul(off, inv);
  const auto param = [&](int i) {
    return g.grad_output(i).is_null() ? Value{} : shaped(g, g.grad_output(i), v.scale_column());
  };
  const Value us = param(1), ub = param(2);
  Grads grads(5);
  Value dxh, dinv;
  if (!us.is_null()) {
    dxh = g.mul(us, dy);
    grads[4] = g.mul(us, xh);
  }
  if (!ub.is_null()) grads[4] = sum_of(g, grads[4], broadcast(g, ub, v.x));
  if (!u.is_null()) {
    const auto project = [&](Value a, Value dot) {
      return g.sub(g.sub(a, mean_over(g, a, axes)), g.mul(xh, dot));
    };
    const Value gy = g.mul(dy, scale), vu = g.mul(u, inv);
    const Value gy_dot = mean_over(g, g.mul(gy, xh), axes), vu_dot = mean_over(g, g.mul(vu, xh), axes);
    const Value projected = project(vu, vu_dot);
    grads[4] = sum_of(g, grads[4], g.mul(scale, projected));
    grads[1] = shaped(g, g.reduce_to_shape_of(g.mul(projected, dy), scale), v.scale_shape());
    dxh = sum_of(g, dxh, g.neg(g.sum(g.mul(vu, gy_dot), g.mul(gy, vu_dot))));
    dinv = sum_over(g, g.mul(u, project(gy, gy_dot)), axes);
  }
  if (dxh.is_null()) return grads;  // only dbias is asked for: it depends on dy alone
  grads[0] = g.mul(dxh, inv);
  grads[2] = shaped(g, g.neg(g.mul(inv, sum_over(g, dxh, axes))), v.group_shape());
  dinv = sum_of(g, dinv, sum_over(g, g.mul(dxh, off), axes));
  const Value cube = g.mul(inv, g.mul(inv, inv));
  grads[3] = shaped(g, g.scale(g.mul(cube, dinv), -0.5), v.group_shape());
  return grads;
}

}  // namespace trireme::op::detail
