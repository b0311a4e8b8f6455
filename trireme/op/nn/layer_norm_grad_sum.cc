#include "trireme/op/nn/layer_norm_grad_sum.h"

#include "trireme/op/detail/convert.h"
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
  out.push_back(out[1]);
  return out;
}

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  return norm_grad_workspace(*layer_norm_view(in[0], attrs));
}

// Over rows, in order, as bias_grad adds them up.
void add_columns(const Tensor& copy, const Tensor& sums) {
  const std::int64_t n = sums.shape().num_elems(), rows = n == 0 ? 0 : copy.shape().num_elems() / n;
  dispatch_float(sums.dtype(), [&]<typename T>() {
    dispatch_float(copy.dtype(), [&]<typename C>() {
      const C* const from = copy.data<C>();
      for (std::int64_t c = 0; c < n; ++c) {
        Acc<T> total = 0;
        for (std::int64_t r = 0; r < rows; ++r) total += convert<Acc<T>>(from[r * n + c]);
        sums.data<T>()[c] = static_cast<T>(total);
      }
    });
  });
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
  add_columns(a.out(3), a.out(4));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = norm_grad_cost(in, out, *layer_norm_view(in[0], attrs));
  total.flops += 2 * elems(in[0]);
  total.work += 2 * elems(in[0]);
  total.depth += elems(in[0]) > 0 ? 1 : 0;
  return total;
}

// As layer_norm_grad.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank() - attrs.get_int("num_axes"); ++d)
    options.push_back({{d, kReplicate, d, d, d, d}, {d, kPartial, kPartial, d, kPartial}});
  return options;
}
}  // namespace

const OpDef kLayerNormGradSum{
    .name = "layer_norm_grad_sum",
    .doc =
        "Gradient of layer_norm from (x, scale, mean, var, dy) with `other` added to dx: the sum, dscale, "
        "dbias, a copy of the sum in another dtype, and the sums of that copy's columns.",
    .family = "nn",
    .num_inputs = 6,
    .num_outputs = 5,
    .attrs = attrs(),
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
