// Inverse of square matrices, by Gauss-Jordan elimination with partial pivoting.
#include <algorithm>

#include "trireme/op/linalg/linalg.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_square("x", in[0]));
  return std::vector{in[0]};
}

// dX = -Y^T dY Y^T
Result<Grads> grad(GradBuilder& g) {
  const Value y = g.output(0);
  const Value left = g.add(kMatmul, {y, g.grad_output(0)}, {{"transpose_a", true}});
  return Grads{g.neg(g.add(kMatmul, {left, y}, {{"transpose_b", true}}))};
}

// left becomes the identity, right (the identity at first) the inverse. A pivot of 0 spreads inf and NaN.
template <typename A>
void eliminate(A* left, A* right, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t best = pivot_row(left, n, k);
    if (best != k) {
      std::swap_ranges(left + k * n, left + (k + 1) * n, left + best * n);
      std::swap_ranges(right + k * n, right + (k + 1) * n, right + best * n);
    }
    const A factor = 1 / left[k * n + k];
    for (std::int64_t j = k + 1; j < n; ++j) left[k * n + j] *= factor;
    for (std::int64_t j = 0; j < n; ++j) right[k * n + j] *= factor;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const A f = left[i * n + k];
      for (std::int64_t j = k + 1; j < n; ++j) left[i * n + j] -= f * left[k * n + j];
      for (std::int64_t j = 0; j < n; ++j) right[i * n + j] -= f * right[k * n + j];
    }
  }
}

std::size_t workspace(TypeSpan in, const Attrs&) { return square_bytes(in[0], 2); }

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int rank = x.shape().rank();
  const std::int64_t n = x.shape().dim(-1), row = x.strides()[idx(rank - 2)],
                     col = x.strides()[idx(rank - 1)];
  if (n == 0) return;
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    A* left = reinterpret_cast<A*>(a.workspace.data());
    A* right = left + n * n;
    walk_rows<2>(batch_of(x.shape()), {x.strides(), y.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t count) {
                   for (std::int64_t b = 0; b < count; ++b) {
                     load_square(x.data<T>() + offset[0] + b * stride[0], row, col, n, left);
                     for (std::int64_t i = 0; i < n * n; ++i) right[i] = i % (n + 1) == 0 ? A{1} : A{0};
                     eliminate(left, right, n);
                     T* to = y.data<T>() + offset[1] + b * stride[1];
                     for (std::int64_t i = 0; i < n * n; ++i) to[i] = static_cast<T>(right[i]);
                   }
                 });
  });
}

// Step k, with r = n - 1 - k rows below: 1 + 2r to find the pivot, 1 + r + n to scale its row, and
// (n - 1)(2r + 2n) to clear its column.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = static_cast<double>(in[0].shape.dim(-1)), sum = n * (n - 1) / 2;
  const double batch = n > 0 ? elems(in[0]) / (n * n) : 0;
  const double flops = batch * (2 * n + 3 * sum + n * n + (n - 1) * (2 * sum + 2 * n * n));
  const double depth = batch > 0 ? n * (log_depth(n) + 2) : 0;
  return {.flops = flops, .bytes = io_bytes(in, out), .work = flops, .depth = depth};
}
}  // namespace

const OpDef kInverse{
    .name = "inverse",
    .doc = "Inverse of square matrices, the last two dimensions; not finite where a matrix is singular.",
    .family = "linalg",
    .num_inputs = 1,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = batch_layout};

}  // namespace trireme::op
