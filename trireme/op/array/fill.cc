// A constant tensor.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  return std::vector{TensorType{attrs.get_dtype("dtype"), shape}};
}

Result<Grads> grad(GradBuilder&) { return Grads{}; }

void run(KernelArgs& a) { fill_with(a.out(0), a.attrs.get_float("value")); }

std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < static_cast<int>(attrs.get_ints("shape").size()); ++d) options.push_back({{}, {d}});
  if (attrs.get_float("value") == 0 && attrs.get_dtype("dtype") != DType::kBool)
    options.push_back({{}, {kPartial}});  // zeros add up to zeros
  return options;
}
}  // namespace

const OpDef kFill{.name = "fill",
                  .doc = "A tensor whose elements all have one value.",
                  .family = "array",
                  .num_inputs = 0,
                  .attrs = {{"value", 0.0, "value of every element"},
                            {"dtype", DType::kF32, "dtype of the result"},
                            {"shape", std::vector<std::int64_t>{}, "shape of the result", true}},
                  .dtypes = 0,
                  .infer = infer,
                  .grad = grad,
                  .reference = run,
                  .cost = copy_cost,
                  .layout = layout,
                  .shape_attr = "shape"};

}  // namespace trireme::op
