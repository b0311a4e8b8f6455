// A tensor of the type of another whose elements all have one value.
#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) { return std::vector{in[0]}; }

// Zeros add up to zeros.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = elementwise_layout(in, attrs);
  if (attrs.get_float("value") != 0 || in[0].dtype == DType::kBool) return options;
  for (const int x : {kReplicate, kPartial}) options.push_back({{x}, {kPartial}});
  return options;
}

void run(KernelArgs& a) { fill_with(a.out(0), a.attrs.get_float("value")); }
}  // namespace

const OpDef kFillLike{
    .name = "fill_like",
    .doc = "A tensor of the type of x whose elements all have one value; reads no element of x.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"value", 0.0, "value of every element"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = flat<1>,
    .reference = run,
    .cost = output_cost,
    .layout = layout,
    .traits = kTypesOnly};

}  // namespace trireme::op
