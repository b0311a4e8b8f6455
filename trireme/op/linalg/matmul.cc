// Product of matrices, each optionally transposed; batches of them broadcast.
#include <algorithm>
#include <array>

#include "trireme/op/linalg/linalg.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Status expect_matrices(std::string_view what, const TensorType& t) {
  if (t.shape.rank() >= 2) return ok_status();
  return error(
      Code::kInvalid,
      "{}: got {}, expected a matrix (2 dimensions) or a batch of them; reshape a vector to a row or "
      "a column",
      what, t.to_string());
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("a", in[0]));
  TR_RETURN_IF_ERROR(expect_dtype("b", in[1], in[0].dtype));
  TR_RETURN_IF_ERROR(expect_matrices("a", in[0]));
  TR_RETURN_IF_ERROR(expect_matrices("b", in[1]));
  const bool ta = attrs.get_bool("transpose_a"), tb = attrs.get_bool("transpose_b");
  if (in[0].shape.dim(ta ? -2 : -1) != in[1].shape.dim(tb ? -1 : -2)) {
    return error(Code::kInvalid, "inner dimensions: got {} {}and {} {}, expected equal sizes",
                 in[0].to_string(), ta ? "transposed " : "", in[1].to_string(), tb ? "transposed" : "");
  }
  auto batch = broadcast_shapes(batch_of(in[0].shape), batch_of(in[1].shape));
  if (!batch.ok()) return batch.status().with_prefix("batches of a and b: ");
  std::vector<std::int64_t> dims = dims_of(*batch);
  dims.push_back(in[0].shape.dim(ta ? -1 : -2));
  dims.push_back(in[1].shape.dim(tb ? -2 : -1));
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}

Value product(GradBuilder& g, Value a, Value b, bool ta, bool tb) {
  return g.add(kMatmul, {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}

// With A' = op(A), B' = op(B): dA' = dC B'^T, dB' = A'^T dC; a transposed operand gets the transpose of that,
// one that was broadcast the sum.
Result<Grads> grad(GradBuilder& g) {
  const bool ta = g.attrs().get_bool("transpose_a"), tb = g.attrs().get_bool("transpose_b");
  const Value a = g.input(0), b = g.input(1), dc = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    grads[0] = g.reduce_to_shape_of(ta ? product(g, b, dc, tb, true) : product(g, dc, b, false, !tb), a);
  }
  if (g.needs_grad(1)) {
    grads[1] = g.reduce_to_shape_of(tb ? product(g, dc, a, true, ta) : product(g, a, dc, !ta, false), b);
  }
  return grads;
}

// One operand as rows and columns of op(X), with strides.
struct Operand {
  Operand(const Tensor& t, bool transposed, const Shape& batch) {
    const auto rank = idx(t.shape().rank());
    row = t.strides()[rank - (transposed ? 1 : 2)];
    col = t.strides()[rank - (transposed ? 2 : 1)];
    const int lead = batch.rank() + 2 - t.shape().rank();
    for (int d = lead; d < batch.rank(); ++d)
      steps[idx(d)] = t.shape()[d - lead] == 1 ? 0 : t.strides()[idx(d - lead)];
  }
  std::int64_t row = 0, col = 0;
  Strides steps{};  // of the batch; 0 where it is broadcast
};

// c[i][j] adds a[i][p] b[p][j] in the order of p, a few columns at a time.
template <typename T>
void multiply(const T* a, const Operand& va, const T* b, const Operand& vb, T* c, std::int64_t m,
              std::int64_t n, std::int64_t k) {
  using A = Acc<T>;
  constexpr std::int64_t kColumns = 64;
  std::array<A, kColumns> sums;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t first = 0; first < n; first += kColumns) {
      const std::int64_t count = std::min(kColumns, n - first);
      sums.fill(A{0});
      for (std::int64_t p = 0; p < k; ++p) {
        const A v = a[i * va.row + p * va.col];
        const T* q = b + p * vb.row + first * vb.col;
        for (std::int64_t j = 0; j < count; ++j) sums[idx(j)] += v * static_cast<A>(q[j * vb.col]);
      }
      for (std::int64_t j = 0; j < count; ++j) c[i * n + first + j] = static_cast<T>(sums[idx(j)]);
    }
  }
}

void run(KernelArgs& args) {
  const bool ta = args.attrs.get_bool("transpose_a"), tb = args.attrs.get_bool("transpose_b");
  const Tensor &a = args.in(0), &b = args.in(1), &c = args.out(0);
  const std::int64_t m = c.shape().dim(-2), n = c.shape().dim(-1), k = a.shape().dim(ta ? -2 : -1);
  const Shape batch = batch_of(c.shape());
  const Operand va(a, ta, batch), vb(b, tb, batch);
  dispatch_float(a.dtype(), [&]<typename T>() {
    walk_rows<3>(batch, {va.steps, vb.steps, c.strides()},
                 [&](const auto& at, const auto& step, std::int64_t count) {
                   for (std::int64_t i = 0; i < count; ++i)
                     multiply(a.data<T>() + at[0] + i * step[0], va, b.data<T>() + at[1] + i * step[1], vb,
                              c.data<T>() + at[2] + i * step[2], m, n, k);
                 });
  });
}

// Work m n k multiply-adds per matrix of the batch; every element is a tree over k (fully connected layers:
// Ben-Nun and Hoefler 2018, table 4, with k = Cin, Cout and N in the three passes).
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const double k = static_cast<double>(in[0].shape.dim(attrs.get_bool("transpose_a") ? -2 : -1));
  const double work = k * elems(out[0]);
  return {.flops = 2 * work, .bytes = io_bytes(in, out), .work = work, .depth = work > 0 ? log_depth(k) : 0};
}

// Batch dimensions, rows of a, columns of b, or the inner dimension, whose pieces give partial sums.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto batch = broadcast_shapes(batch_of(in[0].shape), batch_of(in[1].shape));
  if (!batch.ok()) return {};
  std::vector<LayoutOption> options;
  const int rank = batch->rank() + 2;
  for (int d = 0; d < batch->rank(); ++d) {
    LayoutOption option{{}, {d}};
    for (const TensorType& t : in) {
      const int own = d - (rank - t.shape.rank());
      option.inputs.push_back(own >= 0 && t.shape[own] == (*batch)[d] ? own : kReplicate);
    }
    options.push_back(std::move(option));
  }
  const int a = in[0].shape.rank(), b = in[1].shape.rank();
  const bool ta = attrs.get_bool("transpose_a"), tb = attrs.get_bool("transpose_b");
  options.push_back({{a - (ta ? 1 : 2), kReplicate}, {rank - 2}});
  options.push_back({{kReplicate, b - (tb ? 2 : 1)}, {rank - 1}});
  options.push_back({{a - (ta ? 2 : 1), b - (tb ? 1 : 2)}, {kPartial}});
  return options;
}
}  // namespace

const OpDef kMatmul{.name = "matmul",
                    .doc =
                        "Product of matrices a [..., m, k] and b [..., k, n], each optionally given "
                        "transposed; the dimensions before broadcast as in NumPy.",
                    .family = "linalg",
                    .num_inputs = 2,
                    .attrs = {{"transpose_a", false, "a is given as [..., k, m]"},
                              {"transpose_b", false, "b is given as [..., n, k]"}},
                    .infer = infer,
                    .grad = grad,
                    .reference = run,
                    .cost = cost,
                    .layout = layout,
                    .linear = {.inputs = kAllInputs}};

}  // namespace trireme::op
