// Takes a tensor from another rank.
#include "trireme/op/comm/comm.h"
#include "trireme/op/feed/feed.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_at_least("peer", attrs.get_int("peer"), 0));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  return stated_type(attrs);
}
}  // namespace

const OpDef kRecv{.name = "recv",
                  .doc = "Receives a tensor that rank `peer` sends with the same slot.",
                  .family = "comm",
                  .num_inputs = 0,
                  .attrs = {{"peer", std::int64_t{0}, "rank that sends", true},
                            slot_attr(),
                            label_attr(),
                            mesh_axis_attr(),
                            dtype_attr(),
                            shape_attr()},
                  .dtypes = 0,
                  .infer = infer,
                  .cost = copy_cost,
                  .layout = stated_layout,
                  .traits = kHostTraits,
                  .shape_attr = "shape"};

}  // namespace trireme::op
