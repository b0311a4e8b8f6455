#include "trireme/op/array/cast_all.h"

#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  if (in.empty()) return Status(Code::kInvalid, "got no inputs, expected at least 1");
  std::vector<TensorType> out;
  for (const TensorType& t : in) {
    TR_RETURN_IF_ERROR(expect_floating("x", t));
    out.push_back({attrs.get_dtype("dtype"), t.shape});
  }
  return out;
}

void run(KernelArgs& a) {
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    KernelArgs one{a.inputs.subspan(i, 1), a.outputs.subspan(i, 1), a.attrs, {}, a.parallel};
    kCast.reference(one);
  }
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return {.bytes = io_bytes(in, out)}; }
// Its inputs have nothing in common that could be cut.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {}; }
}  // namespace

const OpDef kCastAll{.name = "cast_all",
                     .doc = "Casts every input to one dtype, as `cast` does.",
                     .family = "array",
                     .num_inputs = -1,
                     .num_outputs = -1,
                     .attrs = {{"dtype", DType::kF32, "dtype of the results", true}},
                     .infer = infer,
                     .reference = run,
                     .cost = cost,
                     .layout = layout};

}  // namespace trireme::op
