// Takes the tensor at the front of a queue; waits while it is empty.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  if (attrs.get_text("name").empty()) {
    return error(Code::kInvalid, "attribute 'name': got an empty text, expected the name of a queue");
  }
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  return std::vector{TensorType{attrs.get_dtype("dtype"), shape}};
}
}  // namespace

const OpDef kDequeue{.name = "dequeue",
                     .doc = "Takes the tensor at the front of a queue; waits while it is empty.",
                     .family = "resource",
                     .num_inputs = 0,
                     .attrs = {{"name", std::string(), "name of the queue", true},
                               {"dtype", DType::kF32, "dtype of the tensor"},
                               {"shape", std::vector<std::int64_t>{}, "shape of the tensor", true}},
                     .infer = infer,
                     .cost = copy_cost,
                     .traits = kHostTraits,
                     .shape_attr = "shape"};

}  // namespace trireme::op
