#include "trireme/op/nn/softmax_cross_entropy_step.h"

#include <limits>

#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/nn/softmax.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_classified(in));
  const TensorType per_sample{in[0].dtype, {in[0].shape[0]}};
  TR_RETURN_IF_ERROR(expect_type("dlosses", in[3], per_sample));
  return std::vector{in[0], per_sample, TensorType{DType::kF32, {in[0].shape[0]}}};
}

template <typename T>
bool is_first_maximum(const Row<const T>& row, std::int64_t label) {
  std::int64_t best = 0;
  for (std::int64_t k = 1; k < row.n; ++k) {
    const Acc<T> v = row[k], top = row[best];
    if (v > top) best = k;
  }
  return best == label;
}

// Element j of the gradient is written after the last look at element j of the row.
template <typename T>
void run_row(const Row<const T>& row, std::int64_t label, float share, Acc<T> d, T* dlogits, T* loss) {
  using A = Acc<T>;
  if (share == 0 || label < 0 || label >= row.n) {
    const T same = static_cast<T>(share == 0 ? 0.0F : std::numeric_limits<float>::quiet_NaN());
    *loss = same;
    std::fill(dlogits, dlogits + row.n, same);
    return;
  }
  const A weight = static_cast<A>(share), lse = log_sum_exp<T>(row), at_label = row[label],
          factor = weight * d;
  *loss = static_cast<T>(weight * (lse - at_label));
  for (std::int64_t j = 0; j < row.n; ++j) {
    const A v = row[j];
    dlogits[j] = static_cast<T>(factor * (math::exp(v - lse) - static_cast<A>(j == label ? 1 : 0)));
  }
}

void run(KernelArgs& a) {
  const Tensor &logits = a.in(0), &dlosses = a.in(3);
  const std::int64_t n = logits.shape()[0], c = logits.shape()[1];
  dispatch_float(logits.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < n; ++i) {
      const float weight = weight_at(a.in(2), i);
      const std::int64_t label = label_at(a.in(1), i);
      const Row<const T> row{logits.data<T>() + i * logits.strides()[0], logits.strides()[1], c};
      a.out(2).data<float>()[i] = is_first_maximum<T>(row, label) && weight > 0 ? 1.0F : 0.0F;
      const Acc<T> d = dlosses.data<T>()[i * dlosses.strides()[0]];
      run_row<T>(row, label, weight, d, a.out(0).data<T>() + i * c, a.out(1).data<T>() + i);
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return sample_cost(in, out, 2 * math::kTranscendentalFlops + 7, math::kTranscendentalFlops + 2);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {{{0, 0, 0, 0}, {0, 0, 0}}}; }
}  // namespace

const OpDef kSoftmaxCrossEntropyStep{
    .name = "softmax_cross_entropy_step",
    .doc =
        "The gradient of softmax_cross_entropy for the logits, its losses and `correct` in one pass, from "
        "(logits, labels, weights, dlosses).",
    .family = "nn",
    .num_inputs = 4,
    .num_outputs = 3,
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .traits = kInPlaceOk};

}  // namespace trireme::op
