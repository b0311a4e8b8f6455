// Equally spaced numbers.
#include <algorithm>
#include <cmath>

#include "trireme/op/array/array.h"
#include "trireme/op/detail/convert.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  const double start = attrs.get_float("start"), limit = attrs.get_float("limit"),
               step = attrs.get_float("step");
  const DType dtype = attrs.get_dtype("dtype");
  if (dtype == DType::kBool)
    return error(Code::kInvalid, "attribute 'dtype': got bool, expected another one");
  const double size = std::ceil((limit - start) / step);
  if (step == 0 || !(size <= 0x1.0p53)) {
    return error(
        Code::kInvalid,
        "attributes 'start', 'limit', 'step': got {}, {} and {}, expected a step and at most 2^53 elements",
        start, limit, step);
  }
  return std::vector{TensorType{dtype, {static_cast<std::int64_t>(std::max(0.0, size))}}};
}

Result<Grads> grad(GradBuilder&) { return Grads{}; }

void run(KernelArgs& a) {
  const F64 start = a.attrs.get_float("start"), step = a.attrs.get_float("step");
  dispatch_numeric(a.out(0).dtype(), [&]<typename T>() {
    const auto out = a.out(0).values<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert<T>(start + static_cast<F64>(i) * step);
  });
}
}  // namespace

const OpDef kRange{
    .name = "range",
    .doc = "start, start + step, start + 2 step... before limit, computed in f64 and converted as cast does.",
    .family = "array",
    .num_inputs = 0,
    .attrs = {{"start", 0.0, "first element"},
              {"limit", 0.0, "the elements stay before it", true},
              {"step", 1.0, "distance of elements; may be negative, not 0"},
              {"dtype", DType::kI64, "dtype of the result"}},
    .dtypes = 0,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<2>,
    // A piece has another start.
    .layout = no_layout};

}  // namespace trireme::op
