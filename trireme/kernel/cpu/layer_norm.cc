// layer_norm and its gradient: rows are cut over slices. The gradients of scale and bias are sums over rows:
// f32 over a few rows, then f64 within a slice, then over the slices in their order.
#include <algorithm>
#include <cmath>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/row_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

struct RowShape {
  std::int64_t rows, n;  // n elements each
};
RowShape row_shape(const Shape& x, const Shape& scale) {
  const std::int64_t n = scale.num_elems();
  return {n == 0 ? 0 : x.num_elems() / n, n};
}

// A row without elements has statistics too; those are left to the reference.
bool has_elements(const op::KernelQuery& q) { return all_f32(q) && q.inputs[1].shape.num_elems() > 0; }

int row_slices(const RowShape& s, int width) { return num_slices(s.rows, s.rows * s.n, width); }

void run_norm(op::KernelArgs& args) {
  const RowShape s = row_shape(args.in(0).shape(), args.in(1).shape());
  const float *x = f32_in(args, 0), *scale = f32_in(args, 1), *bias = f32_in(args, 2);
  float *y = f32_out(args, 0), *mean = f32_out(args, 1), *var = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  const RowLoops& loops = row_loops();
  for_slices(args.parallel, s.rows, row_slices(s, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = begin; r < end; ++r)
                 loops.norm(x + r * s.n, scale, bias, eps, y + r * s.n, mean + r, var + r, s.n);
             });
}

// dscale and dbias in f64, per slice.
std::size_t grad_workspace(const op::KernelQuery& q) {
  const RowShape s = row_shape(q.inputs[0].shape, q.inputs[1].shape);
  return static_cast<std::size_t>(row_slices(s, q.width) * 2 * s.n) * sizeof(double);
}

void run_grad(op::KernelArgs& args) {
  const RowShape s = row_shape(args.in(0).shape(), args.in(1).shape());
  const float *x = f32_in(args, 0), *scale = f32_in(args, 1), *mean = f32_in(args, 2);
  const float *var = f32_in(args, 3), *dy = f32_in(args, 4);
  float *dx = f32_out(args, 0), *dscale = f32_out(args, 1), *dbias = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  auto* partial = reinterpret_cast<double*>(args.workspace.data());
  const RowLoops& loops = row_loops();
  const int slices = row_slices(s, args.parallel.width());
  // Rows that are summed in f32, and read again for it while they are in the L1 cache.
  constexpr std::int64_t kFew = 8;
  for_slices(args.parallel, s.rows, slices, [&](std::int64_t begin, std::int64_t end, int slice) {
    double* sums = partial + slice * 2 * s.n;
    std::fill(sums, sums + 2 * s.n, 0.0);
    for (std::int64_t r = begin; r < end; r += kFew) {
      const std::int64_t few = std::min(kFew, end - r);
      float inv[kFew];
      for (std::int64_t k = 0; k < few; ++k) {
        const std::int64_t at = (r + k) * s.n;
        inv[k] = 1 / std::sqrt(var[r + k] + eps);
        loops.norm_grad(x + at, scale, dy + at, mean[r + k], inv[k], dx + at, s.n);
      }
      loops.norm_param_grad(x + r * s.n, dy + r * s.n, mean + r, inv, few, s.n, sums, sums + s.n);
    }
  });
  for (std::int64_t i = 0; i < s.n; ++i) {
    double scale_sum = 0, bias_sum = 0;
    for (int slice = 0; slice < slices; ++slice) {
      scale_sum += partial[slice * 2 * s.n + i];
      bias_sum += partial[(slice * 2 + 1) * s.n + i];
    }
    dscale[i] = static_cast<float>(scale_sum);
    dbias[i] = static_cast<float>(bias_sum);
  }
}

}  // namespace

extern const op::KernelRow kLayerNormVector{
    .op = "layer_norm", .name = "vector", .run = run_norm, .applicable = has_elements};
extern const op::KernelRow kLayerNormGradVector{.op = "layer_norm_grad",
                                                .name = "vector",
                                                .run = run_grad,
                                                .applicable = has_elements,
                                                .workspace_bytes = grad_workspace};

}  // namespace trireme::kernel
