#include "trireme/op/fused/fused_bias_grad.h"

#include "trireme/op/detail/convert.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, kFused.infer(in, attrs));
  TR_RETURN_IF_ERROR(expect_floating("the first result", out[0]));
  if (out[0].shape.rank() != 2)
    return error(Code::kInvalid, "the first result: got {}, expected 2 dimensions", out[0].to_string());
  const DType wide = out[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  out.push_back({wide, {out[0].shape[1]}});
  return out;
}

// The sums in index order, as bias_grad has them.
void run(KernelArgs& a) {
  const Tensor &from = a.out(0), &to = a.outputs.back();
  run_program(*parse_program(a.attrs.get_text("program")), a.inputs, a.outputs.first(a.outputs.size() - 1));
  const std::int64_t rows = from.shape()[0], columns = from.shape()[1];
  dispatch_float(to.dtype(), [&]<typename T>() {
    dispatch_float(from.dtype(), [&]<typename X>() {
      for (std::int64_t c = 0; c < columns; ++c) {
        T total = 0;
        for (std::int64_t r = 0; r < rows; ++r) total += convert<T>(from.data<X>()[r * columns + c]);
        to.data<T>()[c] = total;
      }
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = kFused.cost(in, out.first(out.size() - 1), attrs);
  const TypeSpan sums = out.last(1);
  total += kBiasGrad.cost(out.first(1), sums, {});
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options = kFused.layout(in, attrs);
  for (LayoutOption& o : options) o.outputs.push_back(o.outputs[0] == 1 ? 0 : kPartial);
  return options;
}
}  // namespace

const OpDef kFusedBiasGrad{
    .name = "fused_bias_grad",
    .doc =
        "A group of elementwise ops as `fused`, over [N,C], and the sums of the columns of its first result.",
    .family = "elementwise",
    .num_inputs = -1,
    .num_outputs = -1,
    .attrs = {{"program", std::string(), "the members and how they are wired, as JSON", true}},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kInPlaceOk};

}  // namespace trireme::op
