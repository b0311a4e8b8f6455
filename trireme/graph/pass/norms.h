// Passes about batch norm, for devices on which memory traffic is what it costs.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme::graph {

// batch_norm, a residual that is added to it, and relu become batch_norm_relu; their gradients become
// batch_norm_relu_grad and batch_norm_add_relu_grad, which also adds up two gradients of y. Run it after
// gradients and merge_common. Tolerant: without a residual the gradient computes again where y is positive.
Result<Graph> fuse_norms(const Graph& graph);

// The batch norm of a 16-bit image gives a 16-bit image, and takes its residual and the gradients of both in
// 16 bits, as mixed precision has it in PyTorch; sums and statistics stay f32. The roundings are casts that
// absorb_casts makes part of the norms. Run it after gradients and fuse_norms. Tolerant.
Result<Graph> narrow_norms(const Graph& graph);

}  // namespace trireme::graph
