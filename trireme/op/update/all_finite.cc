// Whether every element of every input is finite: what loss scaling asks of the gradients.
#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/update/update.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  if (in.empty()) return error(Code::kInvalid, "inputs: got none, expected at least 1");
  for (std::size_t i = 0; i < in.size(); ++i)
    TR_RETURN_IF_ERROR(expect_floating(fmt::format("input {}", i), in[i]));
  return std::vector{TensorType{DType::kBool, {}}};
}

void run(KernelArgs& a) {
  bool finite = true;
  for (const Tensor& t : a.inputs) {
    dispatch_float(t.dtype(), [&]<typename T>() {
      walk_rows<1>(t.shape(), {t.strides()}, [&](const auto& offset, const auto& stride, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const Acc<T> v = t.data<T>()[offset[0] + i * stride[0]];
          finite = math::isfinite(v) && finite;
        }
      });
    });
  }
  a.out(0).data<bool>()[0] = finite;
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  double n = 0;
  for (const TensorType& t : in) n += elems(t);
  return {.bytes = io_bytes(in, out), .work = std::max(n, 1.0), .depth = log_depth(n)};
}

// Pieces would have to be joined by "and", which is neither a concatenation nor a sum.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {}; }
}  // namespace

const OpDef kAllFinite{.name = "all_finite",
                       .doc = "True when no element of any input is infinite or NaN.",
                       .family = "update",
                       .num_inputs = -1,
                       .infer = infer,
                       .reference = run,
                       .cost = cost,
                       .layout = layout};

}  // namespace trireme::op
