// Gradient of softmax_cross_entropy for the logits: dlosses[i] weights[i] (softmax(logits[i]) -
// onehot(labels[i])).
#include <limits>

#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/nn/softmax.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_classified(in));
  TR_RETURN_IF_ERROR(expect_type("dlosses", in[3], {in[0].dtype, {in[0].shape[0]}}));
  return std::vector{in[0]};
}

// With p = softmax(logits), a = weights dlosses per row and u the gradient of the result:
// logits get p (a u - sum(p a u)); weights and dlosses, in which the result is linear, sums of u times it.
Result<Grads> grad(GradBuilder& g) {
  const Value logits = g.input(0), labels = g.input(1), weights = g.input(2), d = g.input(3);
  const Value u = g.grad_output(0);
  const std::int64_t n = g.type(logits).shape[0];
  Grads grads(4);
  if (g.needs_grad(0)) {
    const Value factors = g.mul(weights_as(g, weights, d), d);
    const Value column = g.add(kReshape, {factors}, {{"shape", std::vector<std::int64_t>{n, 1}}});
    const Value p = g.add(kSoftmax, {logits}), au = g.mul(column, u);
    const Value dot =
        g.add(kSum, {g.mul(p, au)}, {{"axes", std::vector<std::int64_t>{1}}, {"keep_dims", true}});
    grads[0] = g.mul(p, g.sub(au, dot));
  }
  const auto along_u = [&](Value with_weights, Value with_d) {
    const Value part = g.add(kSoftmaxCrossEntropyGrad, {logits, labels, with_weights, with_d});
    return sum_per_sample(g, g.mul(part, u));
  };
  if (g.needs_grad(2)) grads[2] = g.add(kCast, {along_u(g.ones_like(weights), d)}, {{"dtype", DType::kF32}});
  if (g.needs_grad(3)) grads[3] = along_u(weights, g.ones_like(d));
  return grads;
}

template <typename T>
void grad_row(const Row<const T>& row, std::int64_t label, Acc<T> factor, T* out) {
  using A = Acc<T>;
  const A lse = log_sum_exp<T>(row);
  for (std::int64_t j = 0; j < row.n; ++j) {
    const A v = row[j];
    out[j] = static_cast<T>(factor * (math::exp(v - lse) - static_cast<A>(j == label ? 1 : 0)));
  }
}

void run(KernelArgs& a) {
  const Tensor &logits = a.in(0), &dlosses = a.in(3);
  const std::int64_t n = logits.shape()[0], c = logits.shape()[1];
  dispatch_float(logits.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    for (std::int64_t i = 0; i < n; ++i) {
      const float weight = weight_at(a.in(2), i);
      const std::int64_t label = label_at(a.in(1), i);
      T* out = a.out(0).data<T>() + i * c;
      if (weight == 0) {
        std::fill(out, out + c, static_cast<T>(0.0F));
      } else if (label < 0 || label >= c) {
        std::fill(out, out + c, static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
      } else {
        const A d = dlosses.data<T>()[i * dlosses.strides()[0]];
        const Row<const T> row{logits.data<T>() + i * logits.strides()[0], logits.strides()[1], c};
        grad_row<T>(row, label, static_cast<A>(weight) * d, out);
      }
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return sample_cost(in, out, 2 * math::kTranscendentalFlops + 6, math::kTranscendentalFlops + 1);
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) { return class_layout(in, 1); }

Cut cut(CutBuilder& b) {
  const Value labels = b.input(1), weights = b.input(2);
  const TensorType& logits = b.whole_input(0);
  const std::int64_t n = logits.shape[0], num_classes = logits.shape[1];
  const CutRows rows = cut_rows(b, b.input(0), 1);
  const DType wide = b.type(rows.powers).dtype;
  const Value hits = b.add(kOneHot, {local_indices(b, labels, num_classes)},
                           {{"depth", b.type(rows.powers).shape[1]}, {"dtype", wide}});
  const Value off = b.add(kSub, {b.add(kDiv, {rows.powers, rows.total}), hits});
  const Value factors = b.add(kMul, {cast_to(b, weights, wide), cast_to(b, b.input(3), wide)});
  const Value dlogits = b.add(kMul, {shaped(b, factors, {n, 1}), off});
  return std::vector{cast_to(b, judged(b, dlogits, labels, weights, num_classes), logits.dtype)};
}
}  // namespace

const OpDef kSoftmaxCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .doc = "Gradient of softmax_cross_entropy for the logits, from (logits, labels, weights, dlosses).",
    .family = "nn",
    .num_inputs = 4,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = 1U << 3},
    .cut = cut};

}  // namespace trireme::op
