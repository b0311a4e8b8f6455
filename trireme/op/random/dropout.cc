// Sets random elements to zero. The mask is a pure function of (key, step, stream, sample id, element of the
// sample), so it is the same under any sharding (dropout.h).
#include "trireme/op/random/dropout.h"

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {
std::vector<AttrSpec> dropout_attrs() {
  return {{"rate", 0.5, "probability of a zero, in [0, 1)"}, stream_attr()};
}

Status expect_dropout(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_key(in, 1));
  TR_RETURN_IF_ERROR(expect_type("sample_ids", in[3], {DType::kI64, {in[0].shape[0]}}));
  const double rate = attrs.get_float("rate");
  if (rate >= 0 && rate < 1) return ok_status();
  return error(Code::kInvalid, "attribute 'rate': got {}, expected a value in [0, 1)", rate);
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_dropout(in, attrs));
  return std::vector{in[0]};
}

// Linear in x with the same mask.
Result<Grads> grad(GradBuilder& g) {
  const Value dx = g.add(kDropout, {g.grad_output(0), g.input(1), g.input(2), g.input(3)}, g.attrs());
  return Grads{dx, Value{}, Value{}, Value{}};
}

void run(KernelArgs& a) {
  drop(a, [](std::int64_t k) { return static_cast<std::uint64_t>(k); });
}

// Samples, and rewritten the other dimensions: a part has to know where its elements are in a whole sample.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options{{{0, kReplicate, kReplicate, 0}, {0}}};
  for (int d = 1; d < in[0].shape.rank(); ++d)
    options.push_back({{d, kReplicate, kReplicate, kReplicate}, {d}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const int dim = b.option().inputs[0].dim;
  const Shape& whole = b.whole_input(0).shape;
  Attrs attrs = b.attrs();
  attrs.set("whole", std::vector<std::int64_t>(whole.dims().begin() + 1, whole.dims().end()));
  attrs.set("dim", std::int64_t{dim});
  return std::vector{
      b.add(kDropoutPart, {b.input(0), b.input(1), b.input(2), b.input(3), b.begin_of(whole[dim])}, attrs)};
}
}  // namespace

const OpDef kDropout{
    .name = "dropout",
    .doc = "x / (1 - rate) where kept, else 0; the mask depends on (key, step, stream, sample id, element).",
    .family = "random",
    .num_inputs = 4,
    .attrs = dropout_attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<1>,
    .layout = layout,
    .linear = {.inputs = 1},
    .cut = cut,
    .traits = kRandom | kInPlaceOk};

}  // namespace trireme::op
