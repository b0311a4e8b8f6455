// Geometry of max pooling, shared by max_pool2d and its gradient. Padding never wins: it counts as minus
// infinity.
#pragma once

#include <algorithm>

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

struct PoolGeometry {
  std::int64_t n, c, h, w, oh, ow;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;
};

std::vector<AttrSpec> pool_attrs();
Result<PoolGeometry> pool_geometry(const TensorType& x, const Attrs& attrs);
std::vector<LayoutOption> pool_layout(TypeSpan in,
                                      const Attrs& attrs);  // samples and channels, all inputs alike
cost::OpCost pool_cost(const TensorType& x, const Attrs& attrs, double bytes);

// Calls hit(plane n, c, output row, column, ih, iw) with the first maximum of every window in row-major
// order; a NaN wins.
template <typename T, typename Hit>
void for_each_window(const PoolGeometry& g, const Tensor& x, Hit&& hit) {
  const Strides& s = x.strides();
  const auto pool_plane = [&](std::int64_t n, std::int64_t c) {
    const T* plane = x.data<T>() + n * s[0] + c * s[1];
    for (std::int64_t oh = 0; oh < g.oh; ++oh) {
      const std::int64_t h0 = std::max<std::int64_t>(oh * g.stride_h - g.pad_h, 0);
      const std::int64_t h1 = std::min(oh * g.stride_h - g.pad_h + g.window_h, g.h);
      for (std::int64_t ow = 0; ow < g.ow; ++ow) {
        const std::int64_t w0 = std::max<std::int64_t>(ow * g.stride_w - g.pad_w, 0);
        const std::int64_t w1 = std::min(ow * g.stride_w - g.pad_w + g.window_w, g.w);
        std::int64_t best_h = h0, best_w = w0;
        T best = plane[h0 * s[2] + w0 * s[3]];
        for (std::int64_t h = h0; h < h1; ++h) {
          for (std::int64_t w = w0; w < w1; ++w) {
            const T v = plane[h * s[2] + w * s[3]];
            if (best == best && (v > best || v != v)) best = v, best_h = h, best_w = w;
          }
        }
        hit(n, c, oh, ow, best_h, best_w);
      }
    }
  };
  for (std::int64_t n = 0; n < g.n; ++n) {
    for (std::int64_t c = 0; c < g.c; ++c) pool_plane(n, c);
  }
}

}  // namespace trireme::op::detail
