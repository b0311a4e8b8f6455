// The numbers of a pooling of images with the channels last, [N,H,W,C].
#pragma once

#include <algorithm>

#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

struct LastPool {
  std::int64_t n, c, h, w, oh, ow;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;

  LastPool(const Shape& x, const Shape& y, const op::Attrs& attrs)  // [N,C,H,W]
      : n(x[0]),
        c(x[1]),
        h(x[2]),
        w(x[3]),
        oh(y[2]),
        ow(y[3]),
        window_h(attrs.get_int("window_h")),
        window_w(attrs.get_int("window_w")),
        stride_h(attrs.get_int("stride_h")),
        stride_w(attrs.get_int("stride_w")),
        pad_h(attrs.get_int("pad_h")),
        pad_w(attrs.get_int("pad_w")) {}

  int slices(int width) const { return num_slices(n, n * c * h * w, width); }
  std::int64_t row() const { return w * c; }
  std::int64_t out_row() const { return ow * c; }
};

// Windows that pixel `i` of one dimension is in: [first, end).
inline SliceRange windows_at(std::int64_t i, std::int64_t window, std::int64_t stride, std::int64_t pad,
                             std::int64_t count) {
  const std::int64_t from = i + pad - window + 1;
  return {from <= 0 ? 0 : (from + stride - 1) / stride, std::min((i + pad) / stride + 1, count)};
}

}  // namespace trireme::kernel
