// Uniform numbers: low + (high - low) u with u = (word >> 8) 2^-24 in [0, 1). Rounding to the dtype may reach
// high. random.h says which word an element uses.
#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  const double low = attrs.get_float("low"), high = attrs.get_float("high");
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high)) {
    return error(Code::kInvalid, "attributes 'low' and 'high': got {} and {}, expected finite low <= high",
                 low, high);
  }
  return infer_generator(in, attrs);
}

void run(KernelArgs& a) {
  const double low = a.attrs.get_float("low"), range = a.attrs.get_float("high") - low;
  generate(a, [&](const Words& words, std::size_t k) { return low + range * double{to_uniform(words[k])}; });
}

Cut cut(CutBuilder& b) { return cut_generator(b, kUniform); }
}  // namespace

const OpDef kUniform{
    .name = "uniform",
    .doc = "Uniform numbers in [low, high) from (key, step, sample_ids [N]): [N, ...shape].",
    .family = "random",
    .num_inputs = 3,
    .attrs = generator_attrs({{"low", 0.0, "smallest value"}, {"high", 1.0, "bound of the values"}}),
    .dtypes = only(DType::kI64),
    .infer = infer,
    .reference = run,
    .cost = cost_per_output<3>,
    .layout = generator_layout,
    .cut = cut,
    .traits = kRandom};

}  // namespace trireme::op
