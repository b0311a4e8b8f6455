// Gradient of softmax_cross_entropy for the logits: dlosses[i] weights[i] (softmax(logits[i]) -
// onehot(labels[i])).
#include <limits>

#include "trireme/op/detail/math.h"
#include "trireme/op/nn/cross_entropy.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_classified(in));
  TR_RETURN_IF_ERROR(expect_type("dlosses", in[3], {in[0].dtype, {in[0].shape[0]}}));
  return std::vector{in[0]};
}

template <typename T>
void grad_row(const T* row, std::int64_t step, std::int64_t c, std::int64_t label, T factor, T* out) {
  const T lse = log_sum_exp(row, step, c);
  for (std::int64_t j = 0; j < c; ++j) {
    out[j] = factor * (math::exp(row[j * step] - lse) - (j == label ? T{1} : T{0}));
  }
}

void run(KernelArgs& a) {
  const Tensor &logits = a.in(0), &dlosses = a.in(3);
  const std::int64_t n = logits.shape()[0], c = logits.shape()[1];
  dispatch_float(logits.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < n; ++i) {
      const T weight = static_cast<T>(weight_at(a.in(2), i));
      const std::int64_t label = label_at(a.in(1), i);
      T* out = a.out(0).data<T>() + i * c;
      if (weight == 0) {
        std::fill(out, out + c, T{0});
      } else if (label < 0 || label >= c) {
        std::fill(out, out + c, std::numeric_limits<T>::quiet_NaN());
      } else {
        const T factor = weight * dlosses.data<T>()[i * dlosses.strides()[0]];
        grad_row(logits.data<T>() + i * logits.strides()[0], logits.strides()[1], c, label, factor, out);
      }
    }
  });
}
}  // namespace

const OpDef kSoftmaxCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .doc = "Gradient of softmax_cross_entropy for the logits, from (logits, labels, weights, dlosses).",
    .family = "nn",
    .num_inputs = 4,
    .infer = infer,
    .reference = run,
    .cost = cost_per_input<20>,
    .layout = sample_layout};

}  // namespace trireme::op
