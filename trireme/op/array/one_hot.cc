// Indices as rows of zeros with a single one.
#include "trireme/op/array/array.h"
#include "trireme/op/detail/convert.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_index("indices", in[0]));
  TR_RETURN_IF_ERROR(expect_at_least("depth", attrs.get_int("depth"), 0));
  Ints dims = dims_of(in[0].shape);
  dims.push_back(attrs.get_int("depth"));
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{attrs.get_dtype("dtype"), *shape}};
}

void run(KernelArgs& a) {
  const Tensor& y = a.out(0);
  const std::int64_t depth = a.attrs.get_int("depth");
  fill_zeros(y);
  if (depth == 0) return;
  dispatch_any(y.dtype(), [&]<typename T>() {
    for_each_index(a.in(0), y, 0, [&](std::int64_t row, std::int64_t at) {
      if (row >= 0 && row < depth) y.data<T>()[at + row] = convert<T>(1.0);
    });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  return same_dims_layout(in[0].shape.rank(), [](int) { return true; });
}
}  // namespace

const OpDef kOneHot{.name = "one_hot",
                    .doc =
                        "For each index a row of `depth` elements: one at the index, zero elsewhere; all "
                        "zero for an index out of range.",
                    .family = "array",
                    .num_inputs = 1,
                    .attrs = {{"depth", std::int64_t{0}, "size of the new last dimension", true},
                              {"dtype", DType::kF32, "dtype of the result"}},
                    .dtypes = kIndices,
                    .infer = infer,
                    .grad = flat<1>,
                    .reference = run,
                    .cost = copy_cost,
                    .layout = layout};

}  // namespace trireme::op
