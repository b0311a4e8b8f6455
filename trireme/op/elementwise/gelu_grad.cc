#include "trireme/op/elementwise/gelu_grad.h"

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

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("dy", in[0]));
  TR_RETURN_IF_ERROR(expect_type("x", in[1], in[0]));
  return std::vector{in[0]};
}

// Formulas: gelu.cc.
void run(KernelArgs& a) {
  if (a.attrs.get_bool("tanh")) {
    zip_float(a.in(0), a.in(1), a.out(0), [](auto dy, auto x) {
      using A = decltype(x);
      const A c = static_cast<A>(kTanhScale), square = x * x;
      const A t = math::tanh(c * x * (1 + static_cast<A>(kCubic) * square));
      const A outer = x * (1 - t * t) * (c * (1 + static_cast<A>(3 * kCubic) * square));
      return dy * (static_cast<A>(0.5) * ((1 + t) + outer));
    });
  } else {
    zip_float(a.in(0), a.in(1), a.out(0), [](auto dy, auto x) {
      using A = decltype(x);
      const A area = static_cast<A>(0.5) * (1 + math::erf(static_cast<A>(kRootHalf) * x));
      const A bell = math::exp(static_cast<A>(-0.5) * x * x);
      return dy * (area + x * bell * static_cast<A>(kRootHalf * std::numbers::inv_sqrtpi));
    });
  }
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  constexpr double kEach = math::kTranscendentalFlops;
  return elementwise_cost(in, out, attrs.get_bool("tanh") ? kEach + 16 : 2 * kEach + 9);
}
}  // namespace

const OpDef kGeluGrad{.name = "gelu_grad",
                      .doc = "Gradient of gelu from (dy, x).",
                      .family = "elementwise",
                      .num_inputs = 2,
                      .attrs = {{"tanh", false, "of the form by tanh"}},
                      .infer = infer,
                      .reference = run,
                      .cost = cost,
                      .layout = elementwise_layout,
                      .linear = {.inputs = 1},
                      .traits = kElementwise | kInPlaceOk};

}  // namespace trireme::op
