// Weighted cross-entropy of softmax(logits) per sample: weights[i] * (logsumexp(logits[i]) -
// logits[i][labels[i]]).
#include <limits>

#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/nn/softmax.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_classified(in));
  return std::vector{TensorType{in[0].dtype, {in[0].shape[0]}}};
}

// The loss is linear in the weights: their gradient is the loss of weight 1.
Result<Grads> grad(GradBuilder& g) {
  const Value logits = g.input(0), labels = g.input(1), weights = g.input(2), d = g.grad_output(0);
  Grads grads(3);
  if (g.needs_grad(0)) grads[0] = g.add(kSoftmaxCrossEntropyGrad, {logits, labels, weights, d});
  if (g.needs_grad(2)) {
    const Value plain = g.add(kSoftmaxCrossEntropy, {logits, labels, g.ones_like(weights)});
    grads[2] = g.add(kCast, {g.mul(d, plain)}, {{"dtype", DType::kF32}});
  }
  return grads;
}

void run(KernelArgs& a) {
  const Tensor& logits = a.in(0);
  const std::int64_t n = logits.shape()[0], c = logits.shape()[1], step = logits.strides()[1];
  dispatch_float(logits.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    T* out = a.out(0).data<T>();
    for (std::int64_t i = 0; i < n; ++i) {
      const float weight = weight_at(a.in(2), i);
      const std::int64_t label = label_at(a.in(1), i);
      const Row<const T> row{logits.data<T>() + i * logits.strides()[0], step, c};
      if (weight == 0) {
        out[i] = static_cast<T>(0.0F);
      } else if (label < 0 || label >= c) {
        out[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      } else {
        const A at_label = row[label];
        out[i] = static_cast<T>(static_cast<A>(weight) * (log_sum_exp<T>(row) - at_label));
      }
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return sample_cost(in, out, math::kTranscendentalFlops + 3, math::kTranscendentalFlops + 2);
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) { return class_layout(in, kReplicate); }

// The logits at the labels, less the maxima of their rows: the position that has the class of a label picks
// it by its place among all elements, the others pick nothing, and all are added.
Value pick(CutBuilder& b, Value shifted, Value labels, std::int64_t num_classes) {
  const std::int64_t n = b.type(shifted).shape[0], own = b.type(shifted).shape[1];
  const Value local = cast_to(b, local_indices(b, labels, num_classes), DType::kI64);
  const Value below = b.add(kLess, {local, scalar(b, DType::kI64, 0)});
  const Value above = b.add(kGreaterEqual, {local, scalar(b, DType::kI64, static_cast<double>(own))});
  const Value rows =
      b.add(kRange, {}, {{"limit", static_cast<double>(n * own)}, {"step", static_cast<double>(own)}});
  const Value places = b.add(
      kSelect, {b.add(kLogicalOr, {below, above}), scalar(b, DType::kI64, -1), b.add(kAdd, {local, rows})});
  return b.reduce(b.add(kGather, {shaped(b, shifted, {n * own}), places}), kPartial);
}

// weights (log(sum of powers) - logit at the label), both less the maximum.
Cut cut(CutBuilder& b) {
  const Value labels = b.input(1), weights = b.input(2);
  const TensorType& logits = b.whole_input(0);
  const CutRows rows = cut_rows(b, b.input(0), 1);
  const Value log_total = shaped(b, b.add(kLog, {rows.total}), {logits.shape[0]});
  const Value loss = b.add(kSub, {log_total, pick(b, rows.shifted, labels, logits.shape[1])});
  const Value weighted = b.add(kMul, {cast_to(b, weights, b.type(loss).dtype), loss});
  return std::vector{cast_to(b, judged(b, weighted, labels, weights, logits.shape[1]), logits.dtype)};
}
}  // namespace

const OpDef kSoftmaxCrossEntropy{.name = "softmax_cross_entropy",
                                 .doc =
                                     "Per-sample weights * cross-entropy of softmax(logits [n,c]) at labels "
                                     "[n]. Weight 0: loss 0; bad label: NaN.",
                                 .family = "nn",
                                 .num_inputs = 3,
                                 .infer = infer,
                                 .grad = grad,
                                 .reference = run,
                                 .cost = cost,
                                 .layout = layout,
                                 .cut = cut};

}  // namespace trireme::op
