// Gradient of locally_connected2d with respect to x, from (filter, dy).
#include "trireme/op/nn/conv_cut.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/nn/locally_connected.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<ConvGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("filter", in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("input_shape", attrs.get_ints("input_shape")));
  return local_geometry({in[0].dtype, shape}, in[0], attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[1], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, g.in_shape()}};
}

// Linear in the filter and in dy, as conv2d_input_grad is.
Result<Grads> grad(GradBuilder& g) {
  const Value filter = g.input(0), dy = g.input(1), u = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("filter_shape", dims_of(g.type(filter).shape));
    grads[0] = g.add(kLocallyConnected2dFilterGrad, {u, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) grads[1] = g.add(kLocallyConnected2d, {u, filter}, conv_attrs_of(g.attrs()));
  return grads;
}

void run(KernelArgs& a) {
  const ConvGeometry g = *local_geometry(a.out(0).type(), a.in(0).type(), a.attrs);
  conv_input_grad(g, a.in(0), local_filter(a.in(0)), a.in(1), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*geometry(in, attrs), ConvPass::input_grad, ConvMethod::direct, io_bytes(in, out));
}

// Samples; input channels; output channels, whose pieces give partial sums. Rewritten: rows or columns. What
// a position's outputs give to inputs of its neighbors is sent there and added; where strides make that
// uneven, the filters of neighbors are fetched.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{kReplicate, 0}, {0}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{3, kReplicate}, {1}});
    options.push_back({{2, 1}, {kPartial}});
  }
  for (const int d : {2, 3}) options.push_back({{d - 2, d}, {d}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const ConvGeometry g = *local_geometry(b.whole_output(0), b.whole_input(0), b.attrs());
  const int dim = b.option().outputs[0].dim;
  const Sliding s = sliding(g, dim);
  const Ranges outputs = even_parts(s.out, b.num_parts()), seen = inputs_of(s, outputs);
  if (can_overlap(seen)) {  // what the own outputs give is exchanged: it is less than filters are
    Shape shape = b.whole_output(0).shape;
    shape.set(dim, seen.size(b.position()));
    Attrs attrs = unpadded(b.attrs(), dim);
    attrs.set("input_shape", dims_of(shape));
    const Value own = b.add(kLocallyConnected2dInputGrad, {b.input(0), b.input(1)}, std::move(attrs));
    return std::vector{add_overlaps(b, own, dim, seen, even_parts(s.in, b.num_parts()))};
  }
  const Backwards how = backwards(s, b.num_parts());
  const Value filter = window_of(b, b.input(0), dim - 2, s.out, how.windows, 0);
  const Value dy = window_of(b, b.input(1), dim, s.out, how.windows, 0);
  return std::vector{cut_input_grad(b, kLocallyConnected2dInputGrad, filter, dy, how, dim)};
}
}  // namespace

const OpDef kLocallyConnected2dInputGrad{
    .name = "locally_connected2d_input_grad",
    .doc = "Gradient of locally_connected2d with respect to x, from (filter, dy).",
    .family = "nn",
    .num_inputs = 2,
    .attrs = local_attrs("input_shape"),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = kAllInputs},
    .cut = cut,
    .shape_attr = "input_shape"};

}  // namespace trireme::op
