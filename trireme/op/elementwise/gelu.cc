// Elementwise x times the normal distribution function of x (Hendrycks and Gimpel, 2016).
#include <numbers>

#include "trireme/op/detail/math.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

constexpr double kRootHalf = std::numbers::sqrt2 / 2;
constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
constexpr double kCubic = 0.044715;

// With F the distribution function and f its density: dx = (F(x) + x f(x)) dy.
Value exact_slope(GradBuilder& g, Value x) {
  const Value one = scalar_like(g, x, 1);
  const Value area = g.scale(g.sum(one, g.add(kErf, {g.scale(x, kRootHalf)})), 0.5);
  const Value bell = g.add(kExp, {g.scale(g.add(kSquare, {x}), -0.5)});
  return g.sum(area, g.scale(g.mul(x, bell), kRootHalf * std::numbers::inv_sqrtpi));
}

// With u = c (x + a x^3), t = tanh(u): dx = ((1 + t) + x (1 - t^2) c (1 + 3 a x^2)) / 2 dy.
Value tanh_slope(GradBuilder& g, Value x) {
  const Value one = scalar_like(g, x, 1), square = g.add(kSquare, {x});
  const Value u = g.scale(g.mul(x, g.sum(one, g.scale(square, kCubic))), kTanhScale);
  const Value t = g.add(kTanh, {u});
  const Value inner = g.scale(g.sum(one, g.scale(square, 3 * kCubic)), kTanhScale);
  const Value outer = g.mul(g.mul(x, g.sub(one, g.add(kSquare, {t}))), inner);
  return g.scale(g.sum(g.sum(one, t), outer), 0.5);
}

Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0);
  const Value slope = g.attrs().get_bool("tanh") ? tanh_slope(g, x) : exact_slope(g, x);
  return Grads{g.mul(g.grad_output(0), slope)};
}

void run(KernelArgs& a) {
  if (a.attrs.get_bool("tanh")) {
    map_float(a.in(0), a.out(0), [](auto v) {
      using A = decltype(v);
      const A u = static_cast<A>(kTanhScale) * (v + static_cast<A>(kCubic) * (v * v * v));
      return static_cast<A>(0.5) * v * (1 + math::tanh(u));
    });
  } else {
    map_float(a.in(0), a.out(0), [](auto v) {
      using A = decltype(v);
      return static_cast<A>(0.5) * v * (1 + math::erf(static_cast<A>(kRootHalf) * v));
    });
  }
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return elementwise_cost(in, out, math::kTranscendentalFlops + (attrs.get_bool("tanh") ? 8 : 4));
}
}  // namespace

const OpDef kGelu{
    .name = "gelu",
    .doc =
        "Elementwise x * P(X <= x) for a standard normal X; exactly by erf, or by a tanh that comes close.",
    .family = "elementwise",
    .num_inputs = 1,
    .attrs = {{"tanh", false, "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) instead of the exact form"}},
    .infer = infer_unary_float,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = elementwise_layout,
    .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
