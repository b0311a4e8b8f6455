// Puts x at the end of a queue; waits while it is full. Yields the bytes queued (i64).
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  if (attrs.get_text("name").empty()) {
    return error(Code::kInvalid, "attribute 'name': got an empty text, expected the name of a queue");
  }
  return std::vector{token_type()};
}
}  // namespace

const OpDef kEnqueue{
    .name = "enqueue",
    .doc = "Puts x at the end of a queue; waits while it is full. Yields the bytes queued (i64).",
    .family = "resource",
    .num_inputs = 1,
    .attrs = {{"name", std::string(), "name of the queue", true}},
    .infer = infer,
    .cost = copy_cost,
    .traits = kHostTraits};

}  // namespace trireme::op
