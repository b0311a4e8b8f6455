// A running average of variances, in place: running = (1 - momentum) running + momentum var n / (n - 1),
// where var is the biased variance of n values (batch_norm's) and n a scalar (count). PyTorch keeps the
// unbiased variance too. n is an input, not an attribute, since it is not known when the batch size is not.
// With fewer than two values, or a count beyond the dtype, var is taken as it is.
#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("running", in[0]));
  TR_RETURN_IF_ERROR(expect_type("var", in[1], in[0]));
  TR_RETURN_IF_ERROR(expect_type("count", in[2], {in[0].dtype, {}}));
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"momentum"}));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const double momentum = a.attrs.get_float("momentum"), n = static_cast<double>(a.in(2).data<T>()[0]);
    const double unbiased = n >= 2 && std::isfinite(n) ? n / (n - 1) : 1;
    const A gain = static_cast<A>(momentum * unbiased), keep = static_cast<A>(1 - momentum);
    update<T>(a.in(0), a.in(1), [=](A r, A v) { return static_cast<T>(keep * r + gain * v); });
  });
}

}  // namespace

const OpDef kApplyRunningVariance{
    .name = "apply_running_variance",
    .doc = "running = (1 - momentum) running + momentum var n / (n - 1), in place, from (running, var, n).",
    .family = "update",
    .num_inputs = 3,
    .attrs = {{"momentum", 0.1, "weight of the new value"}},
    .infer = infer,
    .reference = run,
    .cost = cost_per_output<3>,
    .layout = update_layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0}};

}  // namespace trireme::op
