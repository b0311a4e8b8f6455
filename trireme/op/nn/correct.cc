// Which samples a classifier gets right.
#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/nn/softmax.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_classified(in));
  return std::vector{TensorType{DType::kF32, {in[0].shape[0]}}};
}

void run(KernelArgs& a) {
  const Tensor& logits = a.in(0);
  const std::int64_t n = logits.shape()[0], c = logits.shape()[1], step = logits.strides()[1];
  dispatch_float(logits.dtype(), [&]<typename T>() {
    for (std::int64_t i = 0; i < n; ++i) {
      const T* row = logits.data<T>() + i * logits.strides()[0];
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < c; ++k) {
        const Acc<T> v = row[k * step], top = row[best * step];
        if (v > top) best = k;
      }
      a.out(0).data<float>()[i] = best == label_at(a.in(1), i) && weight_at(a.in(2), i) > 0 ? 1.0F : 0.0F;
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) { return sample_cost(in, out, 1, -1); }

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) { return class_layout(in, kReplicate); }

// A position that has the maximum of a row says where its first one is, the others say `behind all`; the
// smallest index is the first of all. Indices are negative here, as positions agree on the greatest of
// them. Unlike the kernel, a row with NaN has no maximum.
Cut cut(CutBuilder& b) {
  const std::int64_t n = b.whole_input(0).shape[0], num_classes = b.whole_input(0).shape[1];
  const Value x = widened(b, b.input(0)), own_top = max_over(b, x, {1});
  const Value top = b.reduce(own_top, kPartialMax);
  const Value first = b.add(kArgmax, {x}, {{"axis", std::int64_t{1}}, {"keep_dims", true}});
  const Value place = b.add(kNeg, {b.add(kAdd, {first, b.begin_of(num_classes)})});
  const Value behind_all = scalar(b, DType::kI64, static_cast<double>(-num_classes));
  const Value candidate = b.add(kSelect, {b.add(kEqual, {own_top, top}), place, behind_all});
  const Value best = b.add(kNeg, {shaped(b, b.reduce(candidate, kPartialMax), {n})});
  const Value is_right = b.add(kEqual, {best, cast_to(b, b.input(1), DType::kI64)});
  const Value counts = b.add(kGreater, {b.input(2), scalar(b, DType::kF32, 0)});
  return std::vector{cast_to(b, b.add(kLogicalAnd, {is_right, counts}), DType::kF32)};
}
}  // namespace

const OpDef kCorrect{
    .name = "correct",
    .doc = "1 where the first maximum of logits [n,c] is at labels [n] and weights [n] > 0, else 0; f32.",
    .family = "nn",
    .num_inputs = 3,
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .cut = cut};

}  // namespace trireme::op
