// What max pooling with and without kept places shares: planes (one channel of one image) and the winners of
// rows of windows.
#pragma once

#include <algorithm>
#include <limits>

#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {

struct PoolShape {
  std::int64_t planes, h, w, oh, ow;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;

  // Windows of 2x2 that tile the plane; an odd last row or column belongs to none.
  bool is_two_by_two() const {
    return window_h == 2 && window_w == 2 && stride_h == 2 && stride_w == 2 && pad_h == 0 && pad_w == 0 &&
           2 * oh <= h && 2 * ow <= w;
  }
};

inline PoolShape pool_shape(const Shape& x, const Shape& y, const op::Attrs& attrs) {
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

inline int pool_slices(const PoolShape& s, int width) {
  return num_slices(s.planes, s.planes * s.h * s.w, width);
}

// Calls fn(plane, slice) for every plane, slice by slice.
template <typename Fn>
void for_planes(op::Parallel& parallel, const PoolShape& s, const Fn& fn) {
  for_slices(parallel, s.planes, pool_slices(s, parallel.width()),
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

}  // namespace trireme::kernel
