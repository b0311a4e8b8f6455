// cast_all: many tensors cast at once, for devices on which every launch costs.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

// Made by the pass `join_casts` only, hence not among those of ops.h.
extern const OpDef kCastAll;

}  // namespace trireme::op
