#include "trireme/op/nn/residual_layer_norm.h"

#include "trireme/op/nn/layer_norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const NormView v, layer_norm_view(in[0], attrs));
  TR_RETURN_IF_ERROR(expect_type("branch", in[1], in[0]));
  TR_RETURN_IF_ERROR(expect_type("shift", in[2], TensorType{in[0].dtype, v.scale_shape()}));
  const std::array norm{in[0], in[3], in[4]};
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_norm(norm, v, attrs));
  out.push_back(in[0]);
  return out;
}

void run(KernelArgs& a) {
  const Tensor& sum = a.out(3);
  const Attrs none;
  const std::array<Tensor, 2> branch{a.in(1), a.in(2)}, both{a.in(0), sum};
  KernelArgs shift{branch, {&sum, 1}, none, {}, a.parallel}, add{both, {&sum, 1}, none, {}, a.parallel};
  kAdd.reference(shift);
  kAdd.reference(add);
  const std::array<Tensor, 3> normed{sum, a.in(3), a.in(4)};
  KernelArgs norm{normed, a.outputs.first(3), a.attrs, {}, a.parallel};
  run_norm(norm, *layer_norm_view(sum.type(), a.attrs));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = norm_cost(in, out, *layer_norm_view(in[0], attrs));
  total.flops += 2 * elems(in[0]);
  total.work += 2 * elems(in[0]);
  total.depth += elems(in[0]) > 0 ? 2 : 0;
  return total;
}

// As layer_norm.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank() - attrs.get_int("num_axes"); ++d)
    options.push_back({{d, d, kReplicate, kReplicate, kReplicate}, {d, d, d, d}});
  return options;
}
}  // namespace

const OpDef kResidualLayerNorm{
    .name = "residual_layer_norm",
    .doc =
        "layer_norm of sum = x + (branch + shift), with shift along the normalised dimensions; outputs y, "
        "mean, var, sum.",
    .family = "nn",
    .num_inputs = 5,
    .num_outputs = 4,
    .attrs = layer_norm_attrs(),
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
