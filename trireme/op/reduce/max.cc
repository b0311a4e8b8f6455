// Maximum over dimensions. NaN wins.
#include <limits>

#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/extremum.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    A first = std::numeric_limits<A>::lowest();
    if constexpr (kIsFloating<T>) first = -std::numeric_limits<A>::infinity();
    reduce_to<T>(a, first, [](A m, A v) { return v > m || math::isnan(v) ? v : m; });
  });
}
}  // namespace

const OpDef kMax{.name = "max",
                 .doc = "Maximum over dimensions; NaN wins. Gradient: ties share it evenly.",
                 .family = "reduce",
                 .num_inputs = 1,
                 .attrs = reduce_attrs(),
                 .dtypes = kNumeric,
                 .infer = infer_extremum,
                 .grad = extremum_grad,
                 .reference = run,
                 .cost = cost_per_input<1>,
                 .layout = partial_maxima_layout};

}  // namespace trireme::op
