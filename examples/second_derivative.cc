// Newton's method with exact second derivatives: the gradient is made with create_graph, so it can be
// differentiated again.
//
// Prints, after the steps:
//   ~ minimum at x = 1\.3008
//   ~ f''\(2\) = 42\.000
#include <fmt/format.h>

#include <vector>

#include "trireme/eager/context.h"
#include "trireme/eager/gradients.h"
#include "trireme/eager/ops.h"

using namespace trireme;

namespace {

// x^4 - 3 x^2 - x
eager::Array f(const eager::Array& x) { return square(square(x)) - 3 * square(x) - x; }

struct Derivatives {
  double first, second;
};

Derivatives derivatives_at(eager::Context& ctx, double at) {
  const eager::Array x = ctx.full(at, {DType::kF64, {}}).watched();
  const eager::Array first = eager::gradients(f(x), std::vector{x}, {.create_graph = true})[0];
  const eager::Array second = eager::gradients(first, std::vector{x})[0];
  return {*first.item(), *second.item()};
}

}  // namespace

int main() {
  eager::Context ctx;
  double x = 2;
  for (int step = 0; step < 6; ++step) {
    const Derivatives d = derivatives_at(ctx, x);
    fmt::print("x = {:.6f}  f' = {:9.6f}  f'' = {:9.6f}\n", x, d.first, d.second);
    x -= d.first / d.second;
  }
  fmt::print("minimum at x = {:.6f}\n", x);
  fmt::print("f''(2) = {:.3f}\n", derivatives_at(ctx, 2).second);
  return 0;
}
