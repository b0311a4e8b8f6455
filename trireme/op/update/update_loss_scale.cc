// Dynamic loss scaling, by the rule of PyTorch's GradScaler (Micikevicius et al., "Mixed precision training",
// ICLR 2018): a step whose gradients were not finite multiplies the scale with `backoff`; `interval` finite
// steps in a row multiply it with `growth`, unless it would become infinite.
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;
constexpr DTypeSet kScales = only(DType::kF32) | only(DType::kF64);

Types infer(TypeSpan in, const Attrs& attrs) {
  if (!contains(kScales, in[0].dtype))
    return error(Code::kInvalid, "scale: got {}, expected f32[] or f64[]", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_shape("scale", in[0], {}));
  TR_RETURN_IF_ERROR(expect_type("good_steps", in[1], {DType::kI64, {}}));
  TR_RETURN_IF_ERROR(expect_type("finite", in[2], {DType::kBool, {}}));
  TR_RETURN_IF_ERROR(expect_at_least("interval", attrs.get_int("interval"), 1));
  const double growth = attrs.get_float("growth"), backoff = attrs.get_float("backoff");
  if (!(std::isfinite(growth) && growth >= 1))
    return error(Code::kInvalid, "attribute 'growth': got {}, expected a finite value of at least 1", growth);
  if (!(backoff > 0 && backoff <= 1))
    return error(Code::kInvalid, "attribute 'backoff': got {}, expected a value in (0, 1]", backoff);
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  std::int64_t& good_steps = a.in(1).data<std::int64_t>()[0];
  const bool finite = a.in(2).data<bool>()[0];
  if (finite && ++good_steps < a.attrs.get_int("interval")) return;
  good_steps = 0;
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    T& scale = a.in(0).data<T>()[0];
    const A next = static_cast<A>(scale) * static_cast<A>(a.attrs.get_float(finite ? "growth" : "backoff"));
    if (math::isfinite(next)) scale = static_cast<T>(next);
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return update_cost(in, out, 1, 1); }

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {}; }
}  // namespace

const OpDef kUpdateLossScale{
    .name = "update_loss_scale",
    .doc = "Adapts a loss scale, in place, from (scale, good_steps, finite).",
    .family = "update",
    .num_inputs = 3,
    .attrs = {{"growth", 2.0, "factor after `interval` finite steps in a row"},
              {"backoff", 0.5, "factor after a step that was not finite"},
              {"interval", std::int64_t{2000}, "finite steps before the scale grows"}},
    .dtypes = kScales,
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kMutates | kStateful,
    .mutated_inputs = {0, 1}};

}  // namespace trireme::op
