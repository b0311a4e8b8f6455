// max_pool2d and its gradient, plane by plane (a plane is one channel of one image).
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

struct PoolShape {
  std::int64_t planes, h, w, oh, ow;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;

  // Windows of 2x2 that tile the plane; an odd last row or column belongs to none.
  bool is_two_by_two() const {
    return window_h == 2 && window_w == 2 && stride_h == 2 && stride_w == 2 && pad_h == 0 && pad_w == 0 &&
           2 * oh <= h && 2 * ow <= w;
  }
};

PoolShape pool_shape(const Shape& x, const Shape& y, const op::Attrs& attrs) {
  return {.planes = x[0] * x[1],
          .h = x[2],
          .w = x[3],
          .oh = y[2],
          .ow = y[3],
          .window_h = attrs.get_int("window_h"),
          .window_w = attrs.get_int("window_w"),
          .stride_h = attrs.get_int("stride_h"),
          .stride_w = attrs.get_int("stride_w"),
          .pad_h = attrs.get_int("pad_h"),
          .pad_w = attrs.get_int("pad_w")};
}

// Part of a window that lies inside the plane.
struct Window {
  std::int64_t top, bottom, left, right;
};
Window window_at(const PoolShape& s, std::int64_t oy, std::int64_t ox) {
  const std::int64_t y = oy * s.stride_h - s.pad_h, x = ox * s.stride_w - s.pad_w;
  return {std::max<std::int64_t>(y, 0), std::min(y + s.window_h, s.h), std::max<std::int64_t>(x, 0),
          std::min(x + s.window_w, s.w)};
}

// Calls fn(plane) for every plane, slice by slice.
template <typename Fn>
void for_planes(op::Parallel& parallel, const PoolShape& s, const Fn& fn) {
  for_slices(parallel, s.planes, num_slices(s.planes, s.planes * s.h * s.w, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t p = begin; p < end; ++p) fn(p);
             });
}

// Index of the first NaN, else of the first maximum. Inference sees to it that no window is all padding.
std::int64_t winner_at(const PoolShape& s, const float* x, std::int64_t oy, std::int64_t ox) {
  const Window v = window_at(s, oy, ox);
  std::int64_t best = v.top * s.w + v.left;
  for (std::int64_t i = v.top; i < v.bottom; ++i)
    for (std::int64_t j = v.left; j < v.right; ++j) {
      const std::int64_t at = i * s.w + j;
      if (x[best] == x[best] && (x[at] > x[best] || x[at] != x[at])) best = at;
    }
  return best;
}

void pool_plane(const PoolShape& s, const float* x, float* y) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for (std::int64_t ox = 0; ox < s.ow; ++ox) y[oy * s.ow + ox] = x[winner_at(s, x, oy, ox)];
}

void run(op::KernelArgs& args) {
  const PoolShape s = pool_shape(args.in(0).shape(), args.out(0).shape(), args.attrs);
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  const VectorLoops& loops = vector_loops();
  for_planes(args.parallel, s, [&](std::int64_t p) {
    const float* xp = x + p * s.h * s.w;
    float* yp = y + p * s.oh * s.ow;
    if (!s.is_two_by_two()) return pool_plane(s, xp, yp);
    // Rows of an even plane follow each other without a gap between pairs of columns, but not between pairs
    // of rows.
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      loops.max_pool2(xp + 2 * oy * s.w, xp + (2 * oy + 1) * s.w, yp + oy * s.ow, s.ow);
  });
}

void grad_plane(const PoolShape& s, const float* x, const float* dy, float* dx) {
  std::memset(dx, 0, static_cast<std::size_t>(s.h * s.w) * sizeof(float));
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for (std::int64_t ox = 0; ox < s.ow; ++ox) dx[winner_at(s, x, oy, ox)] += dy[oy * s.ow + ox];
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
  for_planes(args.parallel, s, [&](std::int64_t p) {
    const std::int64_t in = p * s.h * s.w, out = p * s.oh * s.ow;
    if (s.is_two_by_two())
      grad_plane_two_by_two(s, x + in, y + out, dy + out, dx + in);
    else
      grad_plane(s, x + in, dy + out, dx + in);
  });
}

}  // namespace

const op::KernelRow kMaxPool2dVector{.op = "max_pool2d", .name = "vector", .run = run, .applicable = all_f32};
const op::KernelRow kMaxPool2dGradVector{
    .op = "max_pool2d_grad", .name = "vector", .run = run_grad, .applicable = all_f32};

}  // namespace trireme::kernel
