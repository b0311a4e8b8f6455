// What softmax_cross_entropy, its gradient and `correct` share: logits [n,c], labels [n], weights [n].
//
// A weight of 0 switches a sample off: its loss and gradient are 0 whatever its logits and label hold (the
// padded tail of a batch). A label outside [0, c) of a sample with another weight makes its loss and its
// gradient NaN: a kernel cannot fail, and NaN is what the steps after it look for.
#pragma once

#include <algorithm>
#include <cmath>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/detail/math.h"

namespace trireme::op::detail {

Status expect_classified(TypeSpan in);  // logits, labels, weights
std::vector<LayoutOption> sample_layout(TypeSpan in,
                                        const Attrs& attrs);  // dimension 0 of every input and the output

inline std::int64_t label_at(const Tensor& labels, std::int64_t i) {
  const std::int64_t at = i * labels.strides()[0];
  return labels.dtype() == DType::kI32 ? labels.data<std::int32_t>()[at] : labels.data<std::int64_t>()[at];
}
inline float weight_at(const Tensor& weights, std::int64_t i) {
  return weights.data<float>()[i * weights.strides()[0]];
}

// log(sum(exp(row))), stable.
template <typename T>
T log_sum_exp(const T* row, std::int64_t step, std::int64_t n) {
  T top = row[0];
  for (std::int64_t i = 1; i < n; ++i) top = std::max(top, row[i * step]);
  T total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += math::exp(row[i * step] - top);
  return top + math::log(total);
}

}  // namespace trireme::op::detail
