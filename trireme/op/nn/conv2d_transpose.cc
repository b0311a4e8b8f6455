// Transposed convolution of x [N,Cin,H,W] with filter [Cin,Cout/groups,KH,KW]: what conv2d's gradient does to
// dy, with sizes out = (in - 1) stride - 2 pad + dilation (K - 1) + 1 + output_pad.
#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_cut.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<std::int64_t> out_size(std::string_view side, std::int64_t in, std::int64_t k, const Attrs& attrs) {
  const auto attr = [&](std::string_view name) { return attrs.get_int(fmt::format("{}_{}", name, side)); };
  const std::int64_t extra = attr("output_pad"), stride = attr("stride");
  if (extra < 0 || extra >= stride) {
    return error(Code::kInvalid,
                 "attribute 'output_pad_{}': got {}, expected at least 0 and less than the "
                 "stride {}",
                 side, extra, stride);
  }
  const auto steps = span_of(in, stride), taps = span_of(k, attr("dilation"));
  const std::int64_t size = steps && taps ? *steps - 1 + *taps + extra - 2 * attr("pad") : 0;
  if (size < 1) {
    return error(Code::kInvalid,
                 "x: got {} along {} with stride {} and padding {}, expected an output of "
                 "1 to 2^61",
                 in, side, stride, attr("pad"));
  }
  return size;
}

// The geometry of the convolution that takes y to x.
Result<ConvGeometry> geometry(TypeSpan in, const Attrs& attrs) {
  const TensorType &x = in[0], &filter = in[1];
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  TR_RETURN_IF_ERROR(expect_rank("filter", filter, 4));
  TR_RETURN_IF_ERROR(expect_dtype("filter", filter, x.dtype));
  TR_RETURN_IF_ERROR(expect_window(attrs));
  if (filter.shape[0] != x.shape[1]) {
    return error(Code::kInvalid, "filter: got {} for x {}, expected {} input channels", filter.to_string(),
                 x.to_string(), x.shape[1]);
  }
  TR_ASSIGN_OR_RETURN(const std::int64_t h, out_size("h", x.shape[2], filter.shape[2], attrs));
  TR_ASSIGN_OR_RETURN(const std::int64_t w, out_size("w", x.shape[3], filter.shape[3], attrs));
  const std::int64_t groups = attrs.get_int("groups");
  if (filter.shape[1] > (std::int64_t{1} << 31)) {
    return error(Code::kInvalid, "channels: got {} per group and {} groups, expected fewer", filter.shape[1],
                 groups);
  }
  const auto y = Shape::checked(std::array{x.shape[0], filter.shape[1] * groups, h, w});
  if (!y.ok()) return y.status().with_prefix("y: ");
  return conv_geometry({x.dtype, *y}, filter, attrs);
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, geometry(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("x", in[0], {in[0].dtype, g.out_shape()}));
  return std::vector{TensorType{in[0].dtype, g.in_shape()}};
}

// y is what conv2d_input_grad makes of (filter, x): x plays dy, and conv2d takes a gradient of y back.
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), filter = g.input(1), dy = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) grads[0] = g.add(kConv2d, {dy, filter}, conv_attrs_of(g.attrs()));
  if (g.needs_grad(1)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("filter_shape", dims_of(g.type(filter).shape));
    grads[1] = g.add(kConv2dFilterGrad, {dy, x}, std::move(attrs));
  }
  return grads;
}

void run(KernelArgs& a) {
  const ConvGeometry g = *conv_geometry(a.out(0).type(), a.in(1).type(), a.attrs);
  conv_input_grad(g, a.in(1), shared_filter(a.in(1)), a.in(0), a.out(0));
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return conv_cost(*geometry(in, attrs), ConvPass::input_grad, ConvMethod::direct, io_bytes(in, out));
}

// Samples; output channels; input channels, whose pieces give partial sums. Rewritten: rows or columns.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{0, kReplicate}, {0}}};
  if (attrs.get_int("groups") == 1) {
    options.push_back({{kReplicate, 1}, {1}});
    options.push_back({{1, 0}, {kPartial}});
  }
  for (const int d : {2, 3}) options.push_back({{d, kReplicate}, {d}, /*rewritten=*/true});
  return options;
}

// x plays dy, as in the gradient.
Cut cut(CutBuilder& b) {
  const int dim = b.option().outputs[0].dim;
  const Sliding s = sliding(*conv_geometry(b.whole_output(0), b.whole_input(1), b.attrs()), dim);
  const Backwards how = backwards(s, b.num_parts());
  const Value x = window_of(b, b.input(0), dim, s.out, how.windows, 0);
  return std::vector{cut_input_grad(b, kConv2dInputGrad, b.input(1), x, how, dim)};
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = window_attrs();
  specs.push_back({"output_pad_h", std::int64_t{0}, "rows added below the output, less than the stride"});
  specs.push_back({"output_pad_w", std::int64_t{0}, "columns added right, less than the stride"});
  return specs;
}
}  // namespace

const OpDef kConv2dTranspose{
    .name = "conv2d_transpose",
    .doc =
        "Transposed convolution of x [N,Cin,H,W] with filter [Cin,Cout/groups,KH,KW], as PyTorch has it "
        "(there output_pad may also reach the dilation).",
    .family = "nn",
    .num_inputs = 2,
    .attrs = attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = kAllInputs},
    .cut = cut};

}  // namespace trireme::op
