// Puts x at the end of a queue; waits while it is full. Yields the bytes queued (i64).
#include "trireme/op/ops.h"
#include "trireme/op/resource/resource.h"

namespace trireme::op {
using namespace detail;

const OpDef kEnqueue{
    .name = "enqueue",
    .doc = "Puts x at the end of a queue; waits while it is full. Yields the bytes queued (i64).",
    .family = "resource",
    .num_inputs = 1,
    .attrs = {queue_attr()},
    .dtypes = kAnyDType,
    .infer = infer_enqueue,
    .cost = copy_cost,
    .layout = token_layout,
    .traits = kHostTraits};

}  // namespace trireme::op
