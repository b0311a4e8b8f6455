// Sums along a dimension: y[i] = x[i - before] + ... + x[i + after], where what lies outside x is left out.
#include "trireme/op/nn/window_sum.h"

#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {
double window_taps(std::int64_t size, std::int64_t before, std::int64_t after) {
  // Element i < before lacks before - i elements on its left; likewise on the right.
  const auto lost = [size](std::int64_t reach) {
    const double m = static_cast<double>(std::min(reach, size));
    return m * (m + 1) / 2;
  };
  if (size == 0) return 0;
  before = std::min(before, size - 1), after = std::min(after, size - 1);
  return static_cast<double>(size) * static_cast<double>(before + after + 1) - lost(before) - lost(after);
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(infer_along_axis(in, attrs).status());
  TR_RETURN_IF_ERROR(expect_at_least("before", attrs.get_int("before"), 0));
  TR_RETURN_IF_ERROR(expect_at_least("after", attrs.get_int("after"), 0));
  return std::vector{in[0]};
}

// x[j] is in the windows of y[j - after] ... y[j + before].
Result<Grads> grad(GradBuilder& g) {
  const Attrs& own = g.attrs();
  return Grads{g.add(
      kWindowSum, {g.grad_output(0)},
      {{"axis", own.get_int("axis")}, {"before", own.get_int("after")}, {"after", own.get_int("before")}})};
}

void run(KernelArgs& a) {
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), a.in(0).type());
  const std::int64_t before = a.attrs.get_int("before"), after = a.attrs.get_int("after");
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    for_each_row<T>(a.in(0), a.out(0), axis, [&](const Row<const T>& x, const Row<T>& y) {
      for (std::int64_t i = 0; i < x.n; ++i) {
        A total = 0;
        const Span s = span_at(i, x.n, before, after);
        for (std::int64_t j = s.begin; j < s.end; ++j) total += static_cast<A>(x[j]);
        y[i] = static_cast<T>(total);
      }
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const int axis = *resolve_axis("axis", attrs.get_int("axis"), in[0]);
  const std::int64_t size = in[0].shape[axis];
  const double n = elems(in[0]), rows = n > 0 ? n / static_cast<double>(size) : 0;
  const double taps = rows * window_taps(size, attrs.get_int("before"), attrs.get_int("after"));
  return {.flops = taps, .bytes = io_bytes(in, out), .work = taps, .depth = n > 0 ? log_depth(taps / n) : 0};
}

// Every dimension; rewritten the axis, where a position needs neighbors.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options = along_axis_layout(in, attrs);
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  if (axis.ok()) options.push_back({{*axis}, {*axis}, /*rewritten=*/true});
  return options;
}

// Windows that reach farther than the row see nothing more.
Cut cut(CutBuilder& b) {
  const int axis = b.option().inputs[0].dim;
  const std::int64_t size = b.whole_input(0).shape[axis];
  const std::int64_t before = std::min(b.attrs().get_int("before"), size);
  const std::int64_t after = std::min(b.attrs().get_int("after"), size);
  return std::vector{with_neighbors(b, kWindowSum, b.input(0), axis, before, after, b.attrs())};
}
}  // namespace

const OpDef kWindowSum{.name = "window_sum",
                       .doc =
                           "Sums of x over windows along a dimension: from i - before to i + after for "
                           "element i, as far as they lie inside.",
                       .family = "nn",
                       .num_inputs = 1,
                       .attrs = {axis_attr()[0],
                                 {"before", std::int64_t{0}, "elements before the own one"},
                                 {"after", std::int64_t{0}, "elements behind the own one"}},
                       .infer = infer,
                       .grad = grad,
                       .reference = run,
                       .cost = cost,
                       .layout = layout,
                       .linear = {.inputs = 1},
                       .cut = cut};

}  // namespace trireme::op
