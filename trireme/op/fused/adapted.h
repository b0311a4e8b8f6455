// The program of an `adapted` node: another op whose operands are cast on the way in and out, or lie in
// memory with the channels last.
//
// Text form, the attribute `program`; a dtype is what the op sees of an input, or what is made of its output,
// null where it stays as it is:
//   {"op":"layer_norm","attrs":{"num_axes":1,"eps":1e-05},"in":["f32",null,null],"out":["bf16",null,null]}
// With "channels_last":true every operand and result of four dimensions is [N,H,W,C] in the graph and
// [N,C,H,W] for the op; a filter is [O,KH,KW,C].
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
  bool channels_last = false;
};

Result<std::string> adapted_text(const Adapted& adapted);
// Pure ops with a reference only.
Result<Adapted> parse_adapted(std::string_view text);
// The op that a node computes: its own, or the one within.
const OpDef& op_within(const OpDef& def, const Attrs& attrs);
// What reports call an op: "adapted conv2d", or its name.
std::string shown_name(const OpDef& def, const Attrs& attrs);
// [N,H,W,C] as [N,C,H,W]; other ranks as they are.
Shape channels_second(const Shape& shape);
// The types that the op itself sees.
Result<std::vector<TensorType>> types_within(const Adapted& adapted, std::span<const TensorType> in);

}  // namespace trireme::op::detail
