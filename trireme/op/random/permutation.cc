// A random order of 0...n-1; random.h says which one. The loop is serial; Shun et al., "Sequential random
// permutation, list contraction and tree contraction are highly parallel", SODA 2015: depth O(log n).
#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_key(in, 0));
  TR_RETURN_IF_ERROR(expect_at_least("n", attrs.get_int("n"), 0));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("n", {attrs.get_int("n")}));
  return std::vector{TensorType{DType::kI64, shape}};
}

void run(KernelArgs& a) { permute(stream_key(a, 0), a.out(0).values<std::int64_t>()); }

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = elems(out[0]);
  return {.bytes = io_bytes(in, out), .work = n, .depth = n > 0 ? log_depth(n) : 0};
}

// A piece does not know where it lies in the whole.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {}; }
}  // namespace

const OpDef kPermutation{.name = "permutation",
                         .doc = "A random order of 0...n-1 (i64) from (key, step).",
                         .family = "random",
                         .num_inputs = 2,
                         .attrs = {{"n", std::int64_t{0}, "number of entries", true}, stream_attr()},
                         .dtypes = only(DType::kI64),
                         .infer = infer,
                         .reference = run,
                         .cost = cost,
                         .layout = layout,
                         .traits = kRandom};

}  // namespace trireme::op
