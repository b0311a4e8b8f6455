// Dropout of a part of every sample: its mask is that part of the mask of whole samples (dropout.h).
#include "trireme/op/ops.h"
#include "trireme/op/random/dropout.h"

namespace trireme::op {
namespace detail {
DropoutRuns::DropoutRuns(const KernelArgs& a) {
  const int dim = static_cast<int>(a.attrs.get_int("dim"));
  const Shape& x = a.in(0).shape();
  std::uint64_t inner = 1;
  for (int d = dim + 1; d < x.rank(); ++d) inner *= static_cast<std::uint64_t>(x[d]);
  size = std::max<std::int64_t>(x[dim] * static_cast<std::int64_t>(inner), 1);
  step = static_cast<std::uint64_t>(a.attrs.get_ints("whole")[idx(dim - 1)]) * inner;
  first = static_cast<std::uint64_t>(a.in(4).data<std::int64_t>()[0]) * inner;
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_dropout(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("begin", in[4], {DType::kI64, {}}));
  const Shape& x = in[0].shape;
  std::vector<std::int64_t> whole = attrs.get_ints("whole");
  whole.insert(whole.begin(), x[0]);
  TR_ASSIGN_OR_RETURN(Shape expected, shape_from("whole", whole));
  const std::int64_t dim = attrs.get_int("dim");
  if (dim < 1 || dim >= expected.rank()) {
    return error(Code::kInvalid, "attribute 'dim': got {}, expected 1 to {}, a dimension of samples {}", dim,
                 expected.rank() - 1, expected.to_string());
  }
  const int d = static_cast<int>(dim);
  if (x.rank() == expected.rank() && x[d] < expected[d]) expected.set(d, x[d]);
  TR_RETURN_IF_ERROR(expect_shape("x", in[0], expected));
  return std::vector{in[0]};
}

// Linear in x with the same mask.
Result<Grads> grad(GradBuilder& g) {
  std::vector<Value> inputs{g.grad_output(0)};
  for (int i = 1; i < 5; ++i) inputs.push_back(g.input(i));
  Grads grads(5);
  grads[0] = g.add(kDropoutPart, std::move(inputs), g.attrs());
  return grads;
}

void run(KernelArgs& a) {
  const DropoutRuns runs(a);
  drop(a, [&](std::int64_t k) { return runs.place(k); });
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return {{{0, kReplicate, kReplicate, 0, kReplicate}, {0}}};
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = dropout_attrs();
  specs.push_back({"whole", std::vector<std::int64_t>{}, "shape of one whole sample", true});
  specs.push_back({"dim", std::int64_t{1}, "dimension of x of which it is a part, from 1", true});
  return specs;
}
}  // namespace

const OpDef kDropoutPart{
    .name = "dropout_part",
    .doc =
        "What dropout makes of the part x of whole samples that begins at index `begin` (i64 scalar) of a "
        "dimension; from (x, key, step, sample_ids, begin).",
    .family = "random",
    .num_inputs = 5,
    .attrs = attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<1>,
    .layout = layout,
    .linear = {.inputs = 1},
    .traits = kRandom | kInPlaceOk};

}  // namespace trireme::op
