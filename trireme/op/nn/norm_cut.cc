// Rules for normalisation over a dimension that is cut: statistics are sums over all positions. Formulas:
// norm.h.
#include "trireme/op/nn/norm.h"
#include "trireme/op/ops.h"

namespace trireme::op::detail {
namespace {

// What the rules share. Values are f32 where operands have 16 bits; statistics have size 1 where they are
// averaged.
class CutNorm {
 public:
  CutNorm(CutBuilder& b, const NormView& whole, int dim) : b_(b), whole_(whole), own_(whole) {
    own_.x.set(dim, b.type(b.input(0)).shape[dim]);
  }

  Value wide(int input) { return widened(b_, b_.input(input)); }
  Value params(int input) { return shaped(b_, wide(input), own_.scale_column()); }
  Value stats(int input) { return shaped(b_, wide(input), own_.group_column()); }
  Value mean(Value v) { return over_count(whole_sum_over(b_, v, whole_.axes())); }
  Value over_count(Value sum) {
    std::int64_t count = 1;
    for (const std::int64_t d : whole_.axes()) count *= whole_.x[static_cast<int>(d)];
    return div(sum, number(sum, static_cast<double>(count)));
  }
  Value inverse_root(Value var) {
    const Value safe = add(var, number(var, b_.attrs().get_float("eps")));
    return div(number(var, 1), b_.add(kSqrt, {safe}));
  }
  // Sums of what reaches one element of scale or bias.
  Value param_sum(Value v, bool over_positions) {
    std::vector<std::int64_t> axes;
    for (int d = 0; d < whole_.x.rank(); ++d)
      if (!whole_.scaled[idx(d)]) axes.push_back(d);
    if (axes.empty()) return v;
    return over_positions ? whole_sum_over(b_, v, axes) : sum_over(b_, v, axes);
  }

  Value add(Value a, Value b) { return b_.add(kAdd, {a, b}); }
  Value sub(Value a, Value b) { return b_.add(kSub, {a, b}); }
  Value mul(Value a, Value b) { return b_.add(kMul, {a, b}); }
  Value div(Value a, Value b) { return b_.add(kDiv, {a, b}); }
  // As an output, of the shape of the op's.
  Value result(Value v, const Shape& shape) {
    return cast_to(b_, shaped(b_, v, shape), b_.whole_input(0).dtype);
  }
  const NormView& own() const { return own_; }

 private:
  Value number(Value like, double value) { return scalar(b_, b_.type(like).dtype, value); }

  CutBuilder& b_;
  const NormView whole_;
  NormView own_;  // of this position
};

}  // namespace

LayoutOption cut_norm_option(std::vector<AxisCut> inputs, std::vector<AxisCut> outputs) {
  return {std::move(inputs), std::move(outputs), /*rewritten=*/true, /*any_indices=*/true};
}

Cut cut_norm(CutBuilder& b, const NormView& whole) {
  CutNorm n(b, whole, b.option().inputs[0].dim);
  const Value x = n.wide(0), mean = n.mean(x), off = n.sub(x, mean);
  const Value var = n.mean(b.add(kSquare, {off}));
  const Value y = n.add(n.mul(n.mul(off, n.inverse_root(var)), n.params(1)), n.params(2));
  const Shape groups = whole.group_shape();
  return std::vector{n.result(y, n.own().x), n.result(mean, groups), n.result(var, groups)};
}

// Where scale goes by groups, as in batch norm, the means of g follow from the sums dscale and dbias.
Cut cut_norm_grad(CutBuilder& b, const NormView& whole) {
  const int dim = b.option().inputs[0].dim;
  const bool by_groups = !whole.scaled[idx(dim)];
  CutNorm n(b, whole, dim);
  const Value scale = n.params(1), dy = n.wide(4), inv = n.inverse_root(n.stats(3));
  const Value xh = n.mul(n.sub(n.wide(0), n.stats(2)), inv), g = n.mul(dy, scale);
  const Value dbias = n.param_sum(dy, by_groups), dscale = n.param_sum(n.mul(dy, xh), by_groups);
  const Value sum = by_groups ? n.over_count(n.mul(dbias, scale)) : n.mean(g);
  const Value dot = by_groups ? n.over_count(n.mul(dscale, scale)) : n.mean(n.mul(g, xh));
  const Value dx = n.mul(inv, n.sub(n.sub(g, sum), n.mul(xh, dot)));
  const Shape params = n.own().scale_shape();
  return std::vector{n.result(dx, n.own().x), n.result(dscale, params), n.result(dbias, params)};
}

}  // namespace trireme::op::detail
