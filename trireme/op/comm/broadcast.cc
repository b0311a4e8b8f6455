// The value of one rank, on every rank.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_at_least("root", attrs.get_int("root"), 0));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  return std::vector{in[0]};
}
}  // namespace

const OpDef kBroadcast{.name = "broadcast",
                       .doc = "The x of rank `root`, on every rank.",
                       .family = "comm",
                       .num_inputs = 1,
                       .attrs = {{"root", std::int64_t{0}, "rank whose value all get"},
                                 slot_attr(),
                                 label_attr(),
                                 mesh_axis_attr()},
                       .dtypes = kAnyDType,
                       .infer = infer,
                       .cost = copy_cost,
                       .layout = any_cut,
                       .traits = kHostTraits};

}  // namespace trireme::op
