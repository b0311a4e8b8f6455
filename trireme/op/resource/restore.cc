// Reads a named tensor from a file.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan, const Attrs& attrs) {
  if (attrs.get_text("path").empty()) {
    return error(Code::kInvalid, "attribute 'path': got an empty text, expected a path");
  }
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  return std::vector{TensorType{attrs.get_dtype("dtype"), shape}};
}
}  // namespace

const OpDef kRestore{.name = "restore",
                     .doc = "Reads a named tensor from a file.",
                     .family = "resource",
                     .num_inputs = 0,
                     .attrs = {{"path", std::string(), "file to read", true},
                               {"name", std::string(), "name of the tensor in the file"},
                               {"dtype", DType::kF32, "dtype of the tensor"},
                               {"shape", std::vector<std::int64_t>{}, "shape of the tensor", true}},
                     .infer = infer,
                     .cost = copy_cost,
                     .traits = kHostTraits,
                     .shape_attr = "shape"};

}  // namespace trireme::op
