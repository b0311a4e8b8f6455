// Writes x under a name into a file. Yields the bytes written (i64). Where it is cut, every rank has a file
// of its own.
#include "trireme/op/ops.h"
#include "trireme/op/resource/resource.h"

namespace trireme::op {
using namespace detail;

const OpDef kSave{.name = "save",
                  .doc = "Writes x under a name into a file. Yields the bytes written (i64).",
                  .family = "resource",
                  .num_inputs = 1,
                  .attrs = file_attrs(),
                  .dtypes = kAnyDType,
                  .infer = infer_save,
                  .cost = copy_cost,
                  .layout = token_layout,
                  .traits = kHostTraits};

}  // namespace trireme::op
