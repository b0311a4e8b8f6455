// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), head by head:
//   S = scale Q K^T;  P = softmax(S) by rows;  Y = P V.
// Causal: row i sees the keys j <= i (counted from the first key, also where there are more keys than
// queries). The matrices S and P are never stored: every kernel makes them row by row (Rabe and Staats,
// "Self-attention does not need O(n^2) memory", 2021). A row without keys gives zeros.
//   attention            (q, k, v) -> y
//   attention_grad       (q, k, v, dy) -> dq, dk, dv
//   attention_part       (q, k, v, begin) -> y and attention_part_grad (q, k, v, dy, begin) -> dq, dk, dv:
//                        the same for queries of which the first has index `begin` among all of them
//   attention_grad_grad  (q, k, v, dy, uq, uk, uv) -> gradients of <u, (dq, dk, dv)> for q, k, v, dy (dual.h)
#pragma once

#include <algorithm>

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/sequence/dual.h"

namespace trireme::op::detail {

std::vector<AttrSpec> attention_attrs();

struct AttentionSizes {
  std::int64_t batch, heads, queries, keys, depth, width;  // depth: of q and k, width: of v
  bool causal;
  double scale;
  std::int64_t first = 0;  // index of the first query, where this is a part of them

  AttentionSizes(const TensorType& q, const TensorType& k, const TensorType& v, const Attrs& attrs);
  std::int64_t keys_of(std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(first + query + 1, 0, keys) : keys;
  }
  double num_pairs() const;  // of a query and a key it sees, over all heads
};

// Checks q, k, v and yields the type of y.
Result<TensorType> infer_attention(TypeSpan in, const Attrs& attrs);
// What the rows of P take, per pair.
Tally attention_rows(const AttentionSizes& s);
// Gradients of the three inputs.
Tally attention_gradients(const AttentionSizes& s);
cost::OpCost attention_cost(TypeSpan in, TypeSpan out, const AttentionSizes& s, const Tally& t, bool dual);

// The cost of attention whose queries are a part of all: any of them may see every key.
cost::OpCost attention_part_cost(TypeSpan in, TypeSpan out, AttentionSizes s, const Tally& t);

// Batch and heads; without causal also the queries, which take part in every key's gradient.
std::vector<LayoutOption> attention_layout(const Attrs& attrs, std::vector<bool> inputs_are_queries,
                                           std::vector<bool> outputs_are_queries);

// A rewritten cut of the queries, where causal attention needs to know their indices.
std::vector<LayoutOption> with_causal_queries(std::vector<LayoutOption> options, TypeSpan in,
                                              const Attrs& attrs, LayoutOption queries);

}  // namespace trireme::op::detail
