// Sum over dimensions. Adds in the element type (16-bit floats: in f32), one element after the other in
// row-major order of x: plain, so that the bits are easy to reproduce. The rounding error grows with the
// number of addends; a caller that minds casts to f64.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) { return Grads{broadcast_reduced(g, g.grad_output(0))}; }

void run(KernelArgs& a) {
  dispatch_numeric(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    reduce_to<T>(a, A{0}, [](A s, A v) { return static_cast<A>(wrapping(s) + wrapping(v)); });
  });
}
}  // namespace

const OpDef kSum{
    .name = "sum",
    .doc = "Sum over dimensions, in the element type and in index order. Nothing to add gives 0.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = reduce_attrs(),
    .dtypes = kNumeric,
    .infer = infer_reduce_numeric,
    .grad = grad,
    .reference = run,
    .cost = cost_per_input<1>,
    .layout = partial_sums_layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
