// max_pool2d and its gradient, plane by plane (a plane is one channel of one image).
#include <cstring>

#include "trireme/kernel/cpu/conv/pool_windows.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

template <bool kGrad>
std::size_t workspace_bytes(const op::KernelQuery& q) {
  const PoolShape s = pool_shape(q.inputs[0].shape, kGrad ? q.inputs[1].shape : q.outputs[0].shape, q.attrs);
  return s.is_two_by_two() ? 0 : static_cast<std::size_t>(pool_slices(s, q.width)) * RowOfWindows::bytes(s);
}

bool applicable(const op::KernelQuery& q) { return all_f32(q) && fits_int32(q); }

void pool_plane(const PoolShape& s, const float* x, float* y, std::byte* memory) {
  RowOfWindows row(s, memory);
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    row.find(x, oy);
    std::copy_n(row.values(), s.ow, y + oy * s.ow);
  }
}

void run(op::KernelArgs& args) {
  const PoolShape s = pool_shape(args.in(0).shape(), args.out(0).shape(), args.attrs);
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  const VectorLoops& loops = vector_loops();
  for_planes(args.parallel, s, [&](std::int64_t p, int slice) {
    const float* xp = x + p * s.h * s.w;
    float* yp = y + p * s.oh * s.ow;
    if (!s.is_two_by_two())
      return pool_plane(s, xp, yp,
                        args.workspace.data() + static_cast<std::size_t>(slice) * RowOfWindows::bytes(s));
    // Rows of an even plane follow each other without a gap between pairs of columns, but not between pairs
    // of rows.
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      loops.max_pool2(xp + 2 * oy * s.w, xp + (2 * oy + 1) * s.w, yp + oy * s.ow, s.ow);
  });
}

void grad_plane(const PoolShape& s, const float* x, const float* dy, float* dx, std::byte* memory) {
  std::memset(dx, 0, static_cast<std::size_t>(s.h * s.w) * sizeof(float));
  RowOfWindows row(s, memory);
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    row.find(x, oy);
    float* to = dx + row.top();
    for (std::int64_t ox = 0; ox < s.ow; ++ox) to[row.offsets()[ox]] += dy[oy * s.ow + ox];
  }
}

void grad_plane_two_by_two(const PoolShape& s, const float* x, const float* y, const float* dy, float* dx) {
  const VectorLoops& loops = vector_loops();
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    const std::int64_t top = 2 * oy * s.w, bottom = top + s.w;
    loops.max_pool2_grad(x + top, x + bottom, y + oy * s.ow, dy + oy * s.ow, dx + top, dx + bottom, s.ow);
    for (std::int64_t j = 2 * s.ow; j < s.w; ++j) dx[top + j] = dx[bottom + j] = 0;
  }
  std::memset(dx + 2 * s.oh * s.w, 0, static_cast<std::size_t>((s.h - 2 * s.oh) * s.w) * sizeof(float));
}

void run_grad(op::KernelArgs& args) {
  const PoolShape s = pool_shape(args.in(0).shape(), args.in(1).shape(), args.attrs);
  const float *x = f32_in(args, 0), *y = f32_in(args, 1), *dy = f32_in(args, 2);
  float* dx = f32_out(args, 0);
  for_planes(args.parallel, s, [&](std::int64_t p, int slice) {
    const std::int64_t in = p * s.h * s.w, out = p * s.oh * s.ow;
    if (s.is_two_by_two())
      grad_plane_two_by_two(s, x + in, y + out, dy + out, dx + in);
    else
      grad_plane(s, x + in, dy + out, dx + in,
                 args.workspace.data() + static_cast<std::size_t>(slice) * RowOfWindows::bytes(s));
  });
}

}  // namespace

extern const op::KernelRow kMaxPool2dVector{.op = "max_pool2d",
                                            .name = "vector",
                                            .run = run,
                                            .applicable = applicable,
                                            .workspace_bytes = workspace_bytes<false>};
extern const op::KernelRow kMaxPool2dGradVector{.op = "max_pool2d_grad",
                                                .name = "vector",
                                                .run = run_grad,
                                                .applicable = applicable,
                                                .workspace_bytes = workspace_bytes<true>};

}  // namespace trireme::kernel
