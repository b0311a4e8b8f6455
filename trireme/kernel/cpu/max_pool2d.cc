// max_pool2d and its gradient, plane by plane (a plane is one channel of one image).
#include <algorithm>
#include <cstring>
#include <limits>

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

int slices_of(const PoolShape& s, int width) { return num_slices(s.planes, s.planes * s.h * s.w, width); }

// Calls fn(plane, slice) for every plane, slice by slice.
template <typename Fn>
void for_planes(op::Parallel& parallel, const PoolShape& s, const Fn& fn) {
  for_slices(parallel, s.planes, slices_of(s, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int slice) {
               for (std::int64_t p = begin; p < end; ++p) fn(p, slice);
             });
}

// The winners of one row of windows, found column by column first. Columns of the padding lose against
// everything. Inference sees to it that no window is all padding.
class RowOfWindows {
 public:
  static std::size_t bytes(const PoolShape& s) {
    return 8 * static_cast<std::size_t>(padded(columns(s)) + padded(s.ow));
  }
  RowOfWindows(const PoolShape& s, std::byte* memory) : s_(s) {
    best_ = reinterpret_cast<float*>(memory);
    out_ = best_ + padded(columns(s));
    best_at_ = reinterpret_cast<std::int32_t*>(out_ + padded(s.ow));
    out_at_ = best_at_ + padded(columns(s));
    std::fill_n(best_, columns(s), -std::numeric_limits<float>::infinity());
    std::fill_n(best_at_, columns(s), std::numeric_limits<std::int32_t>::max());
  }
  // Sets values() and offsets(), which are from plane + top() on.
  void find(const float* plane, std::int64_t oy) {
    const std::int64_t y = oy * s_.stride_h - s_.pad_h, first = std::max<std::int64_t>(y, 0);
    top_ = first * s_.w;
    const VectorLoops& loops = vector_loops();
    loops.column_winners(plane + top_, s_.w, std::min(y + s_.window_h, s_.h) - first, best_ + s_.pad_w,
                         best_at_ + s_.pad_w, s_.w);
    loops.window_winners(best_, best_at_, s_.window_w, s_.stride_w, out_, out_at_, s_.ow);
  }
  const float* values() const { return out_; }
  const std::int32_t* offsets() const { return out_at_; }
  std::int64_t top() const { return top_; }

 private:
  static std::int64_t columns(const PoolShape& s) {
    return std::max(s.w + 2 * s.pad_w, (s.ow - 1) * s.stride_w + s.window_w);
  }
  static std::int64_t padded(std::int64_t elems) { return (elems + 15) / 16 * 16; }

  const PoolShape& s_;
  float *best_, *out_;
  std::int32_t *best_at_, *out_at_;
  std::int64_t top_ = 0;
};

template <bool kGrad>
std::size_t workspace_bytes(const op::KernelQuery& q) {
  const PoolShape s = pool_shape(q.inputs[0].shape, kGrad ? q.inputs[1].shape : q.outputs[0].shape, q.attrs);
  return s.is_two_by_two() ? 0 : static_cast<std::size_t>(slices_of(s, q.width)) * RowOfWindows::bytes(s);
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

const op::KernelRow kMaxPool2dVector{.op = "max_pool2d",
                                     .name = "vector",
                                     .run = run,
                                     .applicable = applicable,
                                     .workspace_bytes = workspace_bytes<false>};
const op::KernelRow kMaxPool2dGradVector{.op = "max_pool2d_grad",
                                         .name = "vector",
                                         .run = run_grad,
                                         .applicable = applicable,
                                         .workspace_bytes = workspace_bytes<true>};

}  // namespace trireme::kernel
