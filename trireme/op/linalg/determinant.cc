// Determinant of square matrices: the product of the pivots of an LU decomposition with partial pivoting.
#include <algorithm>

#include "trireme/op/linalg/linalg.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_square("x", in[0]));
  return std::vector{TensorType{in[0].dtype, batch_of(in[0].shape)}};
}

// dX = y dy X^-T: for matrices that have an inverse.
Result<Grads> grad(GradBuilder& g) {
  const Shape x = g.type(g.input(0)).shape;
  std::vector<std::int64_t> order, scalars = dims_of(batch_of(x));
  for (int d = 0; d < x.rank() - 2; ++d) order.push_back(d);
  order.insert(order.end(), {x.rank() - 1, x.rank() - 2});
  scalars.insert(scalars.end(), {1, 1});
  const Value turned = g.add(kTranspose, {g.add(kInverse, {g.input(0)})}, {{"order", order}});
  const Value factor = g.mul(g.grad_output(0), g.output(0));
  return Grads{g.mul(g.add(kReshape, {factor}, {{"shape", scalars}}), turned)};
}

template <typename A>
A determinant(A* m, std::int64_t n) {
  A result{1};
  bool odd = false;  // number of rows exchanged
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t best = pivot_row(m, n, k);
    if (best != k) {
      std::swap_ranges(m + k * n, m + (k + 1) * n, m + best * n);
      odd = !odd;
    }
    const A pivot = m[k * n + k];
    if (pivot == 0) return A{0};
    result *= pivot;
    for (std::int64_t i = k + 1; i < n; ++i) {
      const A f = m[i * n + k] / pivot;
      for (std::int64_t j = k + 1; j < n; ++j) m[i * n + j] -= f * m[k * n + j];
    }
  }
  return (odd ? A{-1} : A{1}) * result;
}

std::size_t workspace(TypeSpan in, const Attrs&) { return square_bytes(in[0], 1); }

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int rank = x.shape().rank();
  const std::int64_t n = x.shape().dim(-1), row = x.strides()[idx(rank - 2)],
                     col = x.strides()[idx(rank - 1)];
  dispatch_float(x.dtype(), [&]<typename T>() {
    auto* m = reinterpret_cast<Acc<T>*>(a.workspace.data());
    walk_rows<2>(batch_of(x.shape()), {x.strides(), y.strides()},
                 [&](const auto& offset, const auto& stride, std::int64_t count) {
                   for (std::int64_t b = 0; b < count; ++b) {
                     load_square(x.data<T>() + offset[0] + b * stride[0], row, col, n, m);
                     y.data<T>()[offset[1] + b * stride[1]] = static_cast<T>(determinant(m, n));
                   }
                 });
  });
}

// Step k, with r = n - 1 - k rows below: 1 + 2r to find the pivot, 2 with it, r + 2r^2 below it; the sign.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = static_cast<double>(in[0].shape.dim(-1)), sum = n * (n - 1) / 2;
  const double squares = (n - 1) * n * (2 * n - 1) / 6, batch = elems(out[0]);
  const double flops = batch * (3 * n + 3 * sum + 2 * squares + 1);
  const double depth = batch > 0 ? n * (log_depth(n) + 2) + 1 : 0;
  return {.flops = flops, .bytes = io_bytes(in, out), .work = flops, .depth = depth};
}
}  // namespace

const OpDef kDeterminant{
    .name = "determinant",
    .doc =
        "Determinant of square matrices, the last two dimensions; 0 where one is singular. Gradient: for "
        "matrices that have an inverse.",
    .family = "linalg",
    .num_inputs = 1,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = batch_layout};

}  // namespace trireme::op
