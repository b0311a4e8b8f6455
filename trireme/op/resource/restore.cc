// Reads a named tensor from a file. Where it is cut, every rank has a file of its own.
#include "trireme/op/ops.h"
#include "trireme/op/resource/resource.h"

namespace trireme::op {
using namespace detail;

const OpDef kRestore{.name = "restore",
                     .doc = "Reads a named tensor from a file.",
                     .family = "resource",
                     .num_inputs = 0,
                     .attrs = stated_attrs(file_attrs()),
                     .dtypes = 0,
                     .infer = infer_restore,
                     .cost = copy_cost,
                     .layout = stated_layout,
                     .traits = kHostTraits,
                     .shape_attr = "shape"};

}  // namespace trireme::op
