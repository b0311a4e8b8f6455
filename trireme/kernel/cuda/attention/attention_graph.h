// Attention as graphs that cuDNN has fused engines for: the scores never reach memory (Dao et al.,
// "FlashAttention", 2022). The operations and their order are what those engines recognise.
#pragma once

#include "trireme/kernel/cuda/conv/dnn.h"
#include "trireme/op/sequence/attention.h"

namespace trireme::kernel::cuda {

// Tensors of a graph, by DnnGraph's names; -1 where it has none.
struct AttentionTensors {
  std::int64_t q = -1, k = -1, v = -1, y = -1, dy = -1, dq = -1, dk = -1, dv = -1;
  std::int64_t stats =
      -1;  // f32 [B, H, T, 1]: log of the sum of exponentials of each row, for the backward pass
  std::int64_t sums = -1;  // f32 [B, H, T, 1], scratch of the backward pass: sum of dy y by rows
  std::int64_t scale = -1, lowest = -1, one = -1;  // scalars; lowest is -inf
};
struct AttentionGraph {
  DnnGraph graph;
  AttentionTensors tensors = {};
};

// Where the operands are: [B, H, T, D] each, or as in op/sequence/attention_qkv.h.
enum class AttentionLayout : std::uint8_t { apart, packed };

// (q, k, v) -> y and, where asked for, stats.
AttentionGraph attention_forward(const Libraries& lib, const op::detail::AttentionSizes& s, DType dtype,
                                 AttentionLayout layout, bool with_stats);
// (q, k, v, y, stats, dy) -> dq, dk, dv.
AttentionGraph attention_backward(const Libraries& lib, const op::detail::AttentionSizes& s, DType dtype,
                                  AttentionLayout layout);

}  // namespace trireme::kernel::cuda
