// residual_layer_norm: as layer_norm (norm_layer.cc), of a sum that is made on the way. Rows too long for
// registers are added up by a kernel of their own.
#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

// T x, R branch, F shift, Z sum; the other types as in norm.h. kHalf: of a 16-bit op, whose parts round to 16
// bits. Sums are those of ops one by one, not parts of multiply-adds.
constexpr const char* kText = R"cuda(
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ A rounded(A v) { return kHalf ? widen(narrow<T>(v)) : v; }
__device__ __forceinline__ A summed(T x, R branch, F shift) {
  return rounded(plus(widen(x), rounded(plus(widen(branch), widen(shift)))));
}

extern "C" __global__ void __launch_bounds__(256)
    residual_sum(const T* x, const R* branch, const F* shift, Z* sum, i64 total, i64 n) {
  for (i64 i = first_index(); i < total; i += grid_step()) sum[i] = narrow<Z>(summed(x[i], branch[i], shift[i % n]));
}

template <bool kAligned>
__device__ __forceinline__ void norm_row(const T* x, const R* branch, const F* shift, const S* scale, const B* bias, Y* y,
                                         M* mean_to, V* var_to, Z* sum_to, int n, A eps) {
  const Row<T, kAligned> row(x, n);
  const Row<R, kAligned> added(branch, n);
  A kept[kKeep][kPack], mean = 0, var = 0;
  row.each_placed([&](const Packed& p, int i, int u) {
    const auto f = load_pack<kAligned>(shift + i);
    Pack<Z, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      kept[u][v] = summed(p.v[v], added.kept[u].v[v], f.v[v]);
      out.v[v] = narrow<Z>(kept[u][v]);
      mean += kept[u][v];
    }
    store_pack<kAligned>(sum_to + i, out);
  });
  mean = row_sum(mean) / (A)n;
  row.each_placed([&](const Packed&, int, int u) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = kept[u][v] - mean;
      var += off * off;
    }
  });
  var = row_sum(var) / (A)n;
  if (row_lane() == 0) {
    *mean_to = narrow<M>(mean);
    *var_to = narrow<V>(var);
  }
  const A inv = (A)1 / root_of(var + eps);
  row.each_placed([&](const Packed&, int i, int u) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto b = load_pack<kAligned>(bias + i);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      out.v[v] = narrow<Y>((kept[u][v] - mean) * inv * widen(s.v[v]) + widen(b.v[v]));
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void residual_layer_norm(const T* x, const R* branch, const F* shift, const S* scale, const B* bias,
                                               Y* y, M* means, V* vars, Z* sum, i64 rows, i64 n, double eps) {
  const i64 r = rows - 1 - row_index(), at = r * n;
  if (r < 0) return;
  if (is_aligned(x) && is_aligned(branch) && is_aligned(shift) && is_aligned(scale) && is_aligned(bias) &&
      is_aligned(y) && is_aligned(sum))
    norm_row<true>(x + at, branch + at, shift, scale, bias, y + at, means + r, vars + r, sum + at, (int)n, (A)eps);
  else
    norm_row<false>(x + at, branch + at, shift, scale, bias, y + at, means + r, vars + r, sum + at, (int)n, (A)eps);
}
)cuda";

struct Sizes {
  std::int64_t rows, n;
};

// The sum first, then layer_norm of it.
Made make_long(const CudaQuery& q, const std::string& text, const Sizes& s) {
  const TensorType in[] = {q.outputs[3], q.inputs[3], q.inputs[4]};
  TR_ASSIGN_OR_RETURN(const Function* add, q.device.function(text, "residual_sum"));
  CudaQuery norm{q.def, in, q.outputs.first(3), q.attrs, q.device};
  TR_ASSIGN_OR_RETURN(std::shared_ptr<CudaKernel> then, make_layer_norm(norm));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows * s.n > 0)
      TR_RETURN_IF_ERROR(launch(a.stream, *add, {blocks_for(s.rows * s.n, 256, 4)}, {256}, 0, a.in(0).raw(),
                                a.in(1).raw(), a.in(2).raw(), a.out(3).raw(), s.rows * s.n, s.n));
    const std::array<Tensor, 3> of{a.out(3), a.in(3), a.in(4)};
    return then->enqueue({of, a.outputs.first(3), a.workspace, a.stream});
  });
}

}  // namespace

Made make_residual_layer_norm(const CudaQuery& q) {
  const Sizes s{q.outputs[1].shape.num_elems(), q.inputs[2].shape.num_elems()};
  const auto type = [](const char* name, const TensorType& t) { return TypeName{name, t.dtype}; };
  const RowPlan plan = plan_row(q.inputs[0].dtype, widest_bytes(q), s.n, true);
  const bool half = dtype_size(q.inputs[0].dtype) == 2 && q.inputs[2].dtype == q.inputs[0].dtype;
  const std::string text = typed_text(
      {type("In", q.inputs[0]), type("R", q.inputs[1]), type("F", q.inputs[2]), type("S", q.inputs[3]),
       type("B", q.inputs[4]), type("Y", q.outputs[0]), type("M", q.outputs[1]), type("V", q.outputs[2]),
       type("Z", q.outputs[3])},
      {{"kPack", plan.pack}, {"kHalf", half}}, {row_constants(plan), pack_text(), row_text(), kText});
  if (!plan.kept || s.n == 0) return make_long(q, text, s);
  const double eps = q.attrs.get_float("eps");
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "residual_layer_norm"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(s.rows)}, {static_cast<unsigned>(plan.block())}, 0,
                  a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.in(4).raw(), a.out(0).raw(),
                  a.out(1).raw(), a.out(2).raw(), a.out(3).raw(), s.rows, s.n, eps);
  });
}

}  // namespace trireme::kernel::cuda
