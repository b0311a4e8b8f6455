// Index of the minimum along one dimension.
#include "trireme/op/ops.h"
#include "trireme/op/reduce/extremum.h"

namespace trireme::op {
namespace {
using namespace detail;

void run(KernelArgs& a) {
  run_arg(a, [](auto v, auto best) { return v < best; });
}
}  // namespace

const OpDef kArgmin{
    .name = "argmin",
    .doc = "Index (i64) of the minimum along one dimension; the first of ties, the first NaN if any.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = arg_attrs(),
    .dtypes = kNumeric,
    .infer = infer_arg,
    .reference = run,
    .cost = arg_cost,
    .layout = arg_layout};

}  // namespace trireme::op
