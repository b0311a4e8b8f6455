// Which samples a classifier gets right.
#include "trireme/op/nn/sample_loss.h"
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
}  // namespace

const OpDef kCorrect{
    .name = "correct",
    .doc = "1 where the first maximum of logits [n,c] is at labels [n] and weights [n] > 0, else 0; f32.",
    .family = "nn",
    .num_inputs = 3,
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = sample_layout};

}  // namespace trireme::op
