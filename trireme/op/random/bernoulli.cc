// Ones and zeros: 1 where u < probability, u = (word >> 8) 2^-24 in [0, 1). random.h says which word an
// element uses.
#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const double probability = attrs.get_float("probability");
  if (!(probability >= 0 && probability <= 1))
    return error(Code::kInvalid, "attribute 'probability': got {}, expected a value in [0, 1]", probability);
  return infer_generator(in, attrs);
}

void run(KernelArgs& a) {
  const double probability = a.attrs.get_float("probability");
  generate(a, [&](const Words& words, std::size_t k) {
    return double{to_uniform(words[k])} < probability ? 1.0 : 0.0;
  });
}

Cut cut(CutBuilder& b) { return cut_generator(b, kBernoulli); }
}  // namespace

const OpDef kBernoulli{
    .name = "bernoulli",
    .doc = "1 with the given probability, else 0, from (key, step, sample_ids [N]): [N, ...shape].",
    .family = "random",
    .num_inputs = 3,
    .attrs = generator_attrs({{"probability", 0.5, "of a one, in [0, 1]"}}),
    .dtypes = only(DType::kI64),
    .infer = infer,
    .reference = run,
    .cost = cost_per_output<2>,
    .layout = generator_layout,
    .cut = cut,
    .traits = kRandom};

}  // namespace trireme::op
