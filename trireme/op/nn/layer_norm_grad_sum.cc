#include "trireme/op/nn/layer_norm_grad_sum.h"

#include "trireme/op/nn/layer_norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> all = layer_norm_attrs();
  all.push_back({"copy", DType::kBF16, "the dtype of the copy"});
  return all;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const NormView v, layer_norm_view(in[0], attrs));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_norm_grad(in, v, attrs));
  TR_RETURN_IF_ERROR(expect_type("other", in[5], in[0]));
  out.push_back({attrs.get_dtype("copy"), in[0].shape});
  return out;
}

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  return norm_grad_workspace(*layer_norm_view(in[0], attrs));
}

void run(KernelArgs& a) {
  run_norm_grad(a, *layer_norm_view(a.in(0).type(), a.attrs));
  const Tensor& sum = a.out(0);
  const std::array<Tensor, 2> parts{sum, a.in(5)};
  const Attrs none;
  KernelArgs add{parts, {&sum, 1}, none, {}, a.parallel};
  kAdd.reference(add);
  const Attrs to{{"dtype", a.attrs.get_dtype("copy")}};
  KernelArgs cast{{&sum, 1}, {&a.out(3), 1}, to, {}, a.parallel};
  kCast.reference(cast);
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = norm_grad_cost(in, out, *layer_norm_view(in[0], attrs));
  total.flops += elems(in[0]);
  total.work += elems(in[0]);
  total.depth += elems(in[0]) > 0 ? 1 : 0;
  return total;
}

// As layer_norm_grad.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank() - attrs.get_int("num_axes"); ++d)
    options.push_back({{d, kReplicate, d, d, d, d}, {d, kPartial, kPartial, d}});
  return options;
}
}  // namespace

const OpDef kLayerNormGradSum{
    .name = "layer_norm_grad_sum",
    .doc =
        "Gradient of layer_norm from (x, scale, mean, var, dy) with `other` added to dx: the sum, dscale, "
        "dbias, and a copy of the sum in another dtype.",
    .family = "nn",
    .num_inputs = 6,
    .num_outputs = 4,
    .attrs = attrs(),
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
