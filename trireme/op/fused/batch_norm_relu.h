// Batch norm, perhaps a residual, and relu as one op: made by the pass `fuse_norms`.
#pragma once

#include "trireme/op/op.h"

namespace trireme::op {

extern const OpDef kBatchNormRelu, kBatchNormReluGrad, kBatchNormAddReluGrad;

}  // namespace trireme::op
