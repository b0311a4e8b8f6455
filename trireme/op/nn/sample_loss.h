// What losses per sample (softmax_cross_entropy, squared_error, their gradients) and `correct` share.
//
// Losses are per sample, times weights [n]; a training step adds them. A weight of 0 switches a sample off:
// its loss and gradient are 0 whatever its inputs and label hold (the padded tail of a batch). A label
// outside [0, c) of a sample with another weight makes its loss and its gradient NaN: a kernel cannot fail,
// and NaN is what the steps after it look for.
#pragma once

#include <algorithm>

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

Status expect_classified(TypeSpan in);  // logits [n,c], labels [n], weights [n]
Status expect_compared(TypeSpan in);    // prediction [n,...], target alike, weights [n]
// Dimension 0 of every input and the output.
std::vector<LayoutOption> sample_layout(TypeSpan in, const Attrs& attrs);
// The same, and rewritten the classes of the logits, with an output that is `of_classes` then.
std::vector<LayoutOption> class_layout(TypeSpan in, int of_classes);
// What a rule for cut classes makes of `value`, [n] or [n,c], whose rows are the samples: 0 where the weight
// is 0, NaN where the label is none of `num_classes`.
Value judged(CutBuilder& b, Value value, Value labels, Value weights, std::int64_t num_classes);
// At most `per_element` operations for each element of input 0 and `per_sample` for each sample.
cost::OpCost sample_cost(TypeSpan in, TypeSpan out, double per_element, double per_sample);

// Sums of a [n,...] over all dimensions but the first.
Value sum_per_sample(GradBuilder& g, Value a);
// f32 weights as `like`'s dtype.
Value weights_as(GradBuilder& g, Value weights, Value like);

inline std::int64_t label_at(const Tensor& labels, std::int64_t i) {
  const std::int64_t at = i * labels.strides()[0];
  return labels.dtype() == DType::kI32 ? labels.data<std::int32_t>()[at] : labels.data<std::int64_t>()[at];
}
inline float weight_at(const Tensor& weights, std::int64_t i) {
  return weights.data<float>()[i * weights.strides()[0]];
}

}  // namespace trireme::op::detail
