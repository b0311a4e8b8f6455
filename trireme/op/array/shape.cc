// The sizes of a tensor.
#include <algorithm>

#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) { return std::vector{TensorType{DType::kI64, {in[0].shape.rank()}}}; }

void run(KernelArgs& a) {
  const auto dims = a.in(0).shape().dims();
  std::copy(dims.begin(), dims.end(), a.out(0).values<std::int64_t>().begin());
}
}  // namespace

const OpDef kShape{.name = "shape",
                   .doc = "The sizes of x as i64; reads no element.",
                   .family = "array",
                   .num_inputs = 1,
                   .dtypes = kAnyDType,
                   .infer = infer,
                   .grad = flat<1>,
                   .reference = run,
                   .cost = output_cost,
                   // A piece has other sizes.
                   .layout = no_layout,
                   .traits = kTypesOnly};

}  // namespace trireme::op
