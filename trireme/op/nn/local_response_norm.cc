// Local response normalisation across channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3), as
// PyTorch has it: y = x / (k + alpha / size * sum of x^2 over `size` channels)^beta. The paper does not
// divide alpha by the size.
#include <cmath>

#include "trireme/op/nn/expr.h"
#include "trireme/op/nn/window_sum.h"

namespace trireme::op {
namespace {
using namespace detail;

// Channels before and behind: of an even number the larger half is before.
std::int64_t before(const Attrs& attrs) { return attrs.get_int("size") / 2; }
std::int64_t after(const Attrs& attrs) { return (attrs.get_int("size") - 1) / 2; }
double gain(const Attrs& attrs) {
  return attrs.get_float("alpha") / static_cast<double>(attrs.get_int("size"));
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 2)
    return error(Code::kInvalid, "x: got {}, expected at least 2 dimensions", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_at_least("size", attrs.get_int("size"), 1));
  const double k = attrs.get_float("k"), alpha = attrs.get_float("alpha"), beta = attrs.get_float("beta");
  if (!(k > 0) || !(alpha >= 0) || !std::isfinite(beta)) {
    return error(Code::kInvalid,
                 "attributes: got k = {}, alpha = {}, beta = {}, expected k above 0, alpha "
                 "at least 0 and a finite beta",
                 k, alpha, beta);
  }
  return std::vector{in[0]};
}

// With s = k + alpha / size W(x^2) and W' the sum over the mirrored window:
// dx = dy s^-beta - 2 alpha beta / size x W'(dy y / s).
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), y = g.output(0), dy = g.grad_output(0);
  const Attrs& own = g.attrs();
  const auto window = [&](Value v, std::int64_t first, std::int64_t last) {
    return g.add(kWindowSum, {v}, {{"axis", std::int64_t{1}}, {"before", first}, {"after", last}});
  };
  const double beta = own.get_float("beta"), factor = gain(own);
  const std::int64_t b = before(own), a = after(own);
  const Value s = plus(g, g.scale(window(g.add(kSquare, {x}), b, a), factor), own.get_float("k"));
  const Value power = g.add(kExp, {g.scale(g.add(kLog, {s}), -beta)});
  const Value back = window(quotient(g, g.mul(dy, y), s), a, b);
  return Grads{g.sub(g.mul(dy, power), g.scale(g.mul(x, back), 2 * beta * factor))};
}

void run(KernelArgs& a) {
  const std::int64_t first = before(a.attrs), last = after(a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A factor = static_cast<A>(gain(a.attrs)), k = static_cast<A>(a.attrs.get_float("k"));
    const A beta = static_cast<A>(a.attrs.get_float("beta"));
    for_each_row<T>(a.in(0), a.out(0), 1, [&](const Row<const T>& x, const Row<T>& y) {
      for (std::int64_t c = 0; c < x.n; ++c) {
        A total = 0;
        const Span s = span_at(c, x.n, first, last);
        for (std::int64_t j = s.begin; j < s.end; ++j) {
          const A v = x[j];
          total += v * v;
        }
        y[c] = static_cast<T>(static_cast<A>(x[c]) / math::pow(k + factor * total, beta));
      }
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const std::int64_t channels = in[0].shape[1];
  const double n = elems(in[0]), rows = n > 0 ? n / static_cast<double>(channels) : 0;
  const double flops =
      2 * rows * window_taps(channels, before(attrs), after(attrs)) + (math::kPowFlops + 3) * n;
  const double width = static_cast<double>(std::min(attrs.get_int("size"), channels));
  return {
      .flops = flops, .bytes = io_bytes(in, out), .work = flops, .depth = n > 0 ? log_depth(width) + 4 : 0};
}

// Every dimension; rewritten the channels, where a position needs neighbors.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d}, /*rewritten=*/d == 1});
  return options;
}

Cut cut(CutBuilder& b) {
  const std::int64_t channels = b.whole_input(0).shape[1];
  const std::int64_t first = std::min(before(b.attrs()), channels),
                     last = std::min(after(b.attrs()), channels);
  return std::vector{with_neighbors(b, kLocalResponseNorm, b.input(0), 1, first, last, b.attrs())};
}
}  // namespace

const OpDef kLocalResponseNorm{
    .name = "local_response_norm",
    .doc = "x / (k + alpha / size * sum of x^2 over `size` channels)^beta for x [N,C,...].",
    .family = "nn",
    .num_inputs = 1,
    .attrs = {{"size", std::int64_t{5}, "channels of a window, size / 2 of them before the own"},
              {"alpha", 1e-4, "factor of the mean square"},
              {"beta", 0.75, "power"},
              {"k", 1.0, "added to the mean square, above 0"}},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .cut = cut};

}  // namespace trireme::op
