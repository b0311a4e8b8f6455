// Where the part of a position begins, of a dimension that is cut over the positions of an axis.
#include <algorithm>

#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_type("position", in[0], {DType::kI64, {}}));
  TR_RETURN_IF_ERROR(expect_at_least("size", attrs.get_int("size"), 0));
  TR_RETURN_IF_ERROR(expect_at_least("parts", attrs.get_int("parts"), 1));
  return std::vector{in[0]};
}

void run(KernelArgs& a) {
  const std::int64_t size = a.attrs.get_int("size"), parts = a.attrs.get_int("parts");
  const std::int64_t position = std::clamp<std::int64_t>(a.in(0).data<std::int64_t>()[0], 0, parts);
  a.out(0).data<std::int64_t>()[0] = position * (size / parts) + std::min(position, size % parts);
}
}  // namespace

const OpDef kPartBegin{
    .name = "part_begin",
    .doc =
        "The first index of the part that `position` (i64 scalar) has of a dimension of `size` cut in "
        "`parts` "
        "that differ by at most one, longer ones first. A position below 0 counts as 0, one beyond the last "
        "has nothing, at the end.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"size", std::int64_t{0}, "size of the whole dimension", true},
              {"parts", std::int64_t{1}, "number of positions", true}},
    .dtypes = only(DType::kI64),
    .infer = infer,
    .grad = flat<1>,
    .reference = run,
    .cost = copy_cost,
    .layout = no_layout};

}  // namespace trireme::op
