// Fits y = a x + b to points around y = 2 x + 1, imperatively: compute, ask for gradients, step. No model, no
// optimiser object, no graph in sight.
//
// Prints, besides the falling loss:
//   ~ y = (1\.9[5-9]|2\.0[0-5]) x \+ (0\.9[5-9]|1\.0[0-5])
#include <fmt/format.h>

#include <vector>

#include "trireme/base/rng.h"
#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"

using namespace trireme;

int main() {
  Philox rng(/*key=*/1, /*stream=*/0);
  std::vector<float> xs, ys;
  for (int i = 0; i < 200; ++i) {
    xs.push_back(4 * rng.next_uniform() - 2);
    ys.push_back(2 * xs.back() + 1 + 0.2F * (rng.next_uniform() - 0.5F));
  }

  eager::Context ctx;
  const eager::Array x = ctx.array<float>(xs, {200, 1}), y = ctx.array<float>(ys, {200, 1});
  const eager::Array a = ctx.parameter("a", Tensor::from<float>(std::vector<float>{0}, {1, 1}));
  const eager::Array b = ctx.parameter("b", Tensor::from<float>(std::vector<float>{0}, {1}));

  for (int step = 0; step <= 100; ++step) {
    const eager::Array loss = square(matmul(x, a) + b - y).mean();
    if (step % 25 == 0) fmt::print("step {:3}  loss {:.4f}\n", step, *loss.item());
    a.clear_grad();
    b.clear_grad();
    loss.backward();
    apply_sgd(a, a.grad(), 0.1);
    apply_sgd(b, b.grad(), 0.1);
  }
  if (!ctx.status().ok()) {
    fmt::print("{}\n", ctx.status().to_string());
    return 1;
  }
  fmt::print("y = {:.2f} x + {:.2f}\n", *a.item(), *b.item());
  return 0;
}
