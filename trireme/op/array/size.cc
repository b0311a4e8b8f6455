// The number of elements of a tensor.
#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs&) { return std::vector{TensorType{DType::kI64, {}}}; }

void run(KernelArgs& a) { a.out(0).data<std::int64_t>()[0] = a.in(0).shape().num_elems(); }

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {kPartial}});
  return options;
}
}  // namespace

const OpDef kSize{.name = "size",
                  .doc = "The number of elements of x as an i64 scalar; reads no element.",
                  .family = "array",
                  .num_inputs = 1,
                  .dtypes = kAnyDType,
                  .infer = infer,
                  .grad = flat<1>,
                  .reference = run,
                  .cost = output_cost,
                  .layout = layout,
                  .traits = kTypesOnly};

}  // namespace trireme::op
