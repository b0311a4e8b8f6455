// Product of two matrices, each optionally transposed. Two-dimensional; batches are rejected.
#include <algorithm>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Status expect_matrix(std::string_view what, const TensorType& t) {
  if (t.shape.rank() == 2) return ok_status();
  return error(Code::kInvalid,
               "{}: got {}, expected a matrix (2 dimensions); batches are not supported, reshape first", what,
               t.to_string());
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("a", in[0]));
  TR_RETURN_IF_ERROR(expect_dtype("b", in[1], in[0].dtype));
  TR_RETURN_IF_ERROR(expect_matrix("a", in[0]));
  TR_RETURN_IF_ERROR(expect_matrix("b", in[1]));
  const bool ta = attrs.get_bool("transpose_a"), tb = attrs.get_bool("transpose_b");
  const std::int64_t k = in[0].shape[ta ? 0 : 1];
  if (in[1].shape[tb ? 1 : 0] != k) {
    return error(Code::kInvalid, "inner dimensions: got {} {}and {} {}, expected equal sizes",
                 in[0].to_string(), ta ? "transposed " : "", in[1].to_string(), tb ? "transposed" : "");
  }
  return std::vector{TensorType{in[0].dtype, {in[0].shape[ta ? 1 : 0], in[1].shape[tb ? 0 : 1]}}};
}

Value product(GradBuilder& g, Value a, Value b, bool ta, bool tb) {
  return g.add(kMatmul, {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}

// With A' = op(A), B' = op(B): dA' = dC B'^T, dB' = A'^T dC; a transposed operand gets the transpose of that.
Result<Grads> grad(GradBuilder& g) {
  const bool ta = g.attrs().get_bool("transpose_a"), tb = g.attrs().get_bool("transpose_b");
  const Value a = g.input(0), b = g.input(1), dc = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) grads[0] = ta ? product(g, b, dc, tb, true) : product(g, dc, b, false, !tb);
  if (g.needs_grad(1)) grads[1] = tb ? product(g, dc, a, true, ta) : product(g, a, dc, !ta, false);
  return grads;
}

// c[i][j] adds a[i][k] b[k][j] in the order of k.
void run(KernelArgs& args) {
  const bool ta = args.attrs.get_bool("transpose_a"), tb = args.attrs.get_bool("transpose_b");
  const Tensor &a = args.in(0), &b = args.in(1), &c = args.out(0);
  const std::int64_t m = c.shape()[0], n = c.shape()[1], k = a.shape()[ta ? 0 : 1];
  const std::int64_t a_row = a.strides()[ta ? 1 : 0], a_col = a.strides()[ta ? 0 : 1];
  const std::int64_t b_row = b.strides()[tb ? 1 : 0], b_col = b.strides()[tb ? 0 : 1];
  dispatch_float(a.dtype(), [&]<typename T>() {
    const T *as = a.data<T>(), *bs = b.data<T>();
    for (std::int64_t i = 0; i < m; ++i) {
      T* row = c.data<T>() + i * n;
      std::fill(row, row + n, T{0});
      for (std::int64_t p = 0; p < k; ++p) {
        const T v = as[i * a_row + p * a_col];
        const T* q = bs + p * b_row;
        if (b_col == 1) {
          for (std::int64_t j = 0; j < n; ++j) row[j] += v * q[j];
        } else {
          for (std::int64_t j = 0; j < n; ++j) row[j] += v * q[j * b_col];
        }
      }
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const double k = static_cast<double>(in[0].shape[attrs.get_bool("transpose_a") ? 0 : 1]);
  return {.flops = 2 * k * elems(out[0]), .bytes = io_bytes(in, out)};
}

// Rows of a, columns of b, or the inner dimension, whose pieces give partial sums.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  const bool ta = attrs.get_bool("transpose_a"), tb = attrs.get_bool("transpose_b");
  return {{{ta ? 1 : 0, kReplicate}, {0}},
          {{kReplicate, tb ? 0 : 1}, {1}},
          {{ta ? 0 : 1, tb ? 1 : 0}, {kPartial}}};
}
}  // namespace

const OpDef kMatmul{
    .name = "matmul",
    .doc = "Product of matrices a [m,k] and b [k,n], each optionally given transposed.",
    .family = "linalg",
    .num_inputs = 2,
    .attrs = {{"transpose_a", false, "a is given as [k,m]"}, {"transpose_b", false, "b is given as [n,k]"}},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
