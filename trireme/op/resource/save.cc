// Writes x under a name into a file. Yields the bytes written (i64).
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  if (attrs.get_text("path").empty()) {
    return error(Code::kInvalid, "attribute 'path': got an empty text, expected a path");
  }
  return std::vector{token_type()};
}
}  // namespace

const OpDef kSave{.name = "save",
                  .doc = "Writes x under a name into a file. Yields the bytes written (i64).",
                  .family = "resource",
                  .num_inputs = 1,
                  .attrs = {{"path", std::string(), "file to write", true},
                            {"name", std::string(), "name of the tensor in the file"}},
                  .infer = infer,
                  .cost = copy_cost,
                  .traits = kHostTraits};

}  // namespace trireme::op
