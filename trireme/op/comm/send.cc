// Hands a tensor to another rank.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_at_least("peer", attrs.get_int("peer"), 0));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  return std::vector{token_type()};
}
}  // namespace

const OpDef kSend{
    .name = "send",
    .doc = "Sends x to rank `peer`, which receives it with the same slot. Yields the bytes sent (i64).",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {{"peer", std::int64_t{0}, "rank that receives", true},
              slot_attr(),
              label_attr(),
              mesh_axis_attr()},
    .dtypes = kAnyDType,
    .infer = infer,
    .cost = copy_cost,
    .layout = token_layout,
    .traits = kHostTraits};

}  // namespace trireme::op
