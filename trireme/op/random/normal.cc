// Normal numbers by Box and Muller, "A note on the generation of random normal deviates", 1958. Words 0 and 1
// of a block make its elements 0 and 1, words 2 and 3 its elements 2 and 3 (blocks: random.h):
//   u = (first word + 1/2) 2^-32 in (0, 1);  v = second word 2^-32 in [0, 1);  r = sqrt(-2 ln u);
//   first element: mean + std r cos(2 pi v);  second: mean + std r sin(2 pi v),  in f64, rounded once.
// No value is more than 6.8 std from the mean.
#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr double kTwoPi = 6.283185307179586;

Types infer(TypeSpan in, const Attrs& attrs) {
  const double mean = attrs.get_float("mean"), std = attrs.get_float("std");
  if (!(std::isfinite(mean) && std::isfinite(std) && std >= 0)) {
    return error(Code::kInvalid,
                 "attributes 'mean' and 'std': got {} and {}, expected finite values, std >= 0", mean, std);
  }
  return infer_generator(in, attrs);
}

void run(KernelArgs& a) {
  const double mean = a.attrs.get_float("mean"), std = a.attrs.get_float("std");
  generate(a, [&](const Words& words, std::size_t k) {
    const double u = (words[k & 2U] + 0.5) * 0x1.0p-32, angle = kTwoPi * (words[(k & 2U) + 1] * 0x1.0p-32);
    const double radius = std::sqrt(-2 * std::log(u));
    return mean + std * (radius * (k % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  });
}

Cut cut(CutBuilder& b) { return cut_generator(b, kNormal); }
}  // namespace

const OpDef kNormal{.name = "normal",
                    .doc = "Normal numbers from (key, step, sample_ids [N]): [N, ...shape].",
                    .family = "random",
                    .num_inputs = 3,
                    .attrs = generator_attrs({{"mean", 0.0, "centre"}, {"std", 1.0, "standard deviation"}}),
                    .dtypes = only(DType::kI64),
                    .infer = infer,
                    .reference = run,
                    .cost = cost_per_output<25>,
                    .layout = generator_layout,
                    .cut = cut,
                    .traits = kRandom};

}  // namespace trireme::op
