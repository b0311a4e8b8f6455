// Self-attention on the rows that one projection makes, without moving heads apart. attention.h has the
// formulas; P is kept as the logarithm of the sum of exponentials of each row of S ("stats").
//   attention_qkv       qkv -> y, stats
//   attention_qkv_grad  (qkv, y, stats, dy) -> dqkv
// qkv and dqkv: [B, T, 3 H D], the heads of q, then of k, then of v. y and dy: [B, T, H D]. stats: f32
// [B, H, T]. Backward: P = exp(S - stats);  dS = P (dY V^T - sum of dY Y by rows); the rest as in
// attention.h.
#pragma once

#include "trireme/op/sequence/attention.h"

namespace trireme::op {

// Made by the pass `pack_attention` only, hence not among those of ops.h.
extern const OpDef kAttentionQkv, kAttentionQkvGrad;

namespace detail {

// The sizes of the attention within: as many keys as queries, as wide as they are deep.
AttentionSizes packed_sizes(const TensorType& qkv, const Attrs& attrs);

}  // namespace detail
}  // namespace trireme::op
