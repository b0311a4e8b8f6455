// The program of an `adapted` node: another op whose operands are cast on the way in and out.
//
// Text form, the attribute `program`; a dtype is what the op sees of an input, or what is made of its output,
// null where it stays as it is:
//   {"op":"layer_norm","attrs":{"num_axes":1,"eps":1e-05},"in":["f32",null,null],"out":["bf16",null,null]}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::op::detail {

struct Adapted {
  const OpDef* def = nullptr;
  Attrs attrs;  // complete
  std::vector<std::optional<DType>> in, out;
};

Result<std::string> adapted_text(const Adapted& adapted);
// Pure ops with a reference only.
Result<Adapted> parse_adapted(std::string_view text);
// The types that the op itself sees.
Result<std::vector<TensorType>> types_within(const Adapted& adapted, std::span<const TensorType> in);

}  // namespace trireme::op::detail
