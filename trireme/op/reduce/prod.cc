// Product over dimensions, in the element type and in index order; integers wrap around.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;
using Ints = std::vector<std::int64_t>;

Value slice(GradBuilder& g, Value v, Ints begin, Ints end, Ints step) {
  return g.add(kSlice, {v}, {{"begin", begin}, {"end", end}, {"step", step}});
}
Value reshape(GradBuilder& g, Value v, Ints shape) { return g.add(kReshape, {v}, {{"shape", shape}}); }

// x [rows, n] and dy [rows] -> dx [rows, n], dx[i] = dy times the product of the others in the row. Never
// divides, so zeros are no exception. Going up a tree, level k+1 holds products of pairs of level k (an odd
// one is paired with a 1); going down, what multiplies an element is its sibling times what multiplies its
// parent. O(n) work, O(log n) depth.
Value times_the_others(GradBuilder& g, Value x, Value dy, std::int64_t rows, std::int64_t n) {
  std::vector<Value> levels;
  std::vector<bool> padded;
  for (; n > 1; n /= 2) {
    padded.push_back(n % 2 == 1);
    if (padded.back()) {
      x = g.add(kPad, {x}, {{"low", Ints{0, 0}}, {"high", Ints{0, 1}}, {"value", 1.0}});
      ++n;
    }
    levels.push_back(x);
    x = g.mul(slice(g, x, {0, 0}, {0, 0}, {1, 2}), slice(g, x, {0, 1}, {0, 0}, {1, 2}));
  }
  Value others = reshape(g, dy, {rows, 1});
  for (std::size_t k = levels.size(); k-- > 0;) {
    const Ints pairs{rows, g.type(others).shape[1], 2};
    const Value siblings = g.add(kReverse, {reshape(g, levels[k], pairs)}, {{"axes", Ints{2}}});
    others = g.mul(siblings, reshape(g, others, {rows, pairs[1], 1}));
    others = reshape(g, others, {rows, 2 * pairs[1]});
    if (padded[k]) others = slice(g, others, {0, 0}, {0, -1}, {1, 1});
  }
  return others;
}

Result<Grads> grad(GradBuilder& g) {
  const TensorType x = g.type(g.input(0));
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(x, g.attrs()));
  if (axes.count >= kUnknownDim / 2) {
    return error(Code::kInvalid, "x: got {}, expected a known number of factors; build for a known batch",
                 x.to_string());
  }
  if (axes.count == 0) return Grads{g.zeros_like(g.input(0))};
  Ints order, back(idx(x.shape.rank()));  // dimensions that stay first
  std::int64_t rows = 1;
  for (const bool reduced : {false, true}) {
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (axes.reduced[idx(d)] != reduced) continue;
      back[idx(d)] = static_cast<std::int64_t>(order.size());
      order.push_back(d);
      if (!reduced) rows *= x.shape[d];
    }
  }
  const Value turned = g.add(kTranspose, {g.input(0)}, {{"order", order}});
  const Value flat = reshape(g, turned, {rows, axes.count});
  const Value dx = times_the_others(g, flat, g.grad_output(0), rows, axes.count);
  return Grads{g.add(kTranspose, {reshape(g, dx, dims_of(g.type(turned).shape))}, {{"order", back}})};
}

void run(KernelArgs& a) {
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    reduce_to<T>(a, A{1}, [](A s, A v) { return static_cast<A>(wrapping(s) * wrapping(v)); });
  });
}
}  // namespace

const OpDef kProd{.name = "prod",
                  .doc =
                      "Product over dimensions, in the element type and in index order; integers wrap "
                      "around. Of nothing: 1.",
                  .family = "reduce",
                  .num_inputs = 1,
                  .attrs = reduce_attrs(),
                  .dtypes = kNumeric,
                  .infer = infer_reduce_numeric,
                  .grad = grad,
                  .reference = run,
                  .cost = cost_per_input<1>,
                  .layout = reduce_layout};

}  // namespace trireme::op
