// Layer normalisation (Ba, Kiros and Hinton, 2016): statistics over the last dimensions of each sample.
#include "trireme/op/nn/layer_norm.h"

#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {
std::vector<AttrSpec> layer_norm_attrs() {
  return {{"num_axes", std::int64_t{1}, "how many of the last dimensions are normalised"}, eps_attr()};
}

Result<NormView> layer_norm_view(const TensorType& x, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  const std::int64_t k = attrs.get_int("num_axes");
  if (k < 1 || k > x.shape.rank()) {
    return error(Code::kInvalid, "attribute 'num_axes': got {} for {}, expected 1 to {}", k, x.to_string(),
                 x.shape.rank());
  }
  return layer_view(x.shape, k);
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const NormView v, layer_norm_view(in[0], attrs));
  return infer_norm(in, v, attrs);
}

Result<Grads> grad(GradBuilder& g) {
  return norm_grads(g, *layer_norm_view(g.type(g.input(0)), g.attrs()), kLayerNormGrad);
}

void run(KernelArgs& a) { run_norm(a, *layer_norm_view(a.in(0).type(), a.attrs)); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return norm_cost(in, out, *layer_norm_view(in[0], attrs));
}

// Every dimension that numbers the groups; rewritten those that are averaged over, with scale and bias.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const int rank = in[0].shape.rank(), groups = rank - static_cast<int>(attrs.get_int("num_axes"));
  for (int d = 0; d < groups; ++d) options.push_back({{d, kReplicate, kReplicate}, {d, d, d}});
  for (int d = groups; in[1].shape.num_elems() > 0 && d < rank; ++d)
    options.push_back(cut_norm_option({d, d - groups, d - groups}, {d, kReplicate, kReplicate}));
  return options;
}

Cut cut(CutBuilder& b) { return cut_norm(b, *layer_norm_view(b.whole_input(0), b.attrs())); }
}  // namespace

const OpDef kLayerNorm{
    .name = "layer_norm",
    .doc =
        "y = (x - mean) / sqrt(var + eps) * scale + bias with mean and biased variance over the last "
        "num_axes dimensions; outputs y, mean, var.",
    .family = "nn",
    .num_inputs = 3,
    .num_outputs = 3,
    .attrs = layer_norm_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .cut = cut};

}  // namespace trireme::op
