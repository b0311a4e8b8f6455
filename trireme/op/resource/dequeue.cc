// Takes the tensor at the front of a queue; waits while it is empty.
#include "trireme/op/ops.h"
#include "trireme/op/resource/resource.h"

namespace trireme::op {
using namespace detail;

const OpDef kDequeue{.name = "dequeue",
                     .doc = "Takes the tensor at the front of a queue; waits while it is empty.",
                     .family = "resource",
                     .num_inputs = 0,
                     .attrs = stated_attrs({queue_attr()}),
                     .dtypes = 0,
                     .infer = infer_dequeue,
                     .cost = copy_cost,
                     .layout = stated_layout,
                     .traits = kHostTraits,
                     .shape_attr = "shape"};

}  // namespace trireme::op
