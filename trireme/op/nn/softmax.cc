// Softmax along the last dimension, with the maximum taken out so that nothing overflows.
#include <algorithm>
#include <cmath>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  return std::vector{in[0]};
}

// dx = y (dy - sum(y dy))
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0), dy = g.grad_output(0);
  const Value dot =
      g.add(kSum, {g.mul(y, dy)}, {{"axes", std::vector<std::int64_t>{-1}}, {"keep_dims", true}});
  return Grads{g.mul(y, g.sub(dy, dot))};
}

template <typename T>
void softmax_row(const T* x, std::int64_t step, T* y, std::int64_t n) {
  T top = x[0];
  for (std::int64_t i = 1; i < n; ++i) top = std::max(top, x[i * step]);
  T total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += y[i] = math::exp(x[i * step] - top);
  for (std::int64_t i = 0; i < n; ++i) y[i] /= total;
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int last = x.shape().rank() - 1;
  const std::int64_t size = x.shape()[last], step = x.strides()[idx(last)];
  if (size == 0) return;
  Shape rows = x.shape();
  rows.set(last, 1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* xs = x.data<T>();
    T* ys = y.data<T>();
    walk_rows<2>(rows, {x.strides(), y.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     softmax_row(xs + offset[0] + i * stride[0], step, ys + offset[1] + i * stride[1], size);
                   }
                 });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d + 1 < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}
}  // namespace

const OpDef kSoftmax{.name = "softmax",
                     .doc = "Softmax along the last dimension: exp(x) / sum(exp(x)).",
                     .family = "nn",
                     .num_inputs = 1,
                     .infer = infer,
                     .grad = grad,
                     .reference = run,
                     .cost = cost_per_output<12>,
                     .layout = layout};

}  // namespace trireme::op
