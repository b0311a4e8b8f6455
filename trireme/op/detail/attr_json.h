// Attributes as JSON: what graph files and fused programs hold.
//
// Ints, bools and texts are themselves, ints an array, a dtype its name ("f32"); a float is a number with all
// its digits, or "inf", "-inf", "nan". Decoding goes by the types that the OpDef declares.
#pragma once

#include "trireme/base/json.h"
#include "trireme/op/op.h"

namespace trireme::op::detail {

// An object in the order of the attributes. Fails where a text is not UTF-8.
Result<Json> attrs_to_json(const Attrs& attrs);
// Complete attributes of `def`: refuses what complete_attrs refuses, and values of the wrong kind.
Result<Attrs> attrs_from_json(const OpDef& def, const Json& json);

}  // namespace trireme::op::detail
