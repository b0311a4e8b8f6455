// Geometry of pooling over windows of x [N,C,H,W], shared by max, average and L2 pooling and their gradients.
//
// Window (oh, ow) starts at row oh stride_h - pad_h; what lies outside the image takes no part. Padding is at
// most half a window (PyTorch's rule), so that every window holds an element. There is no ceil_mode: a last
// window that does not fit is left out. Pooling over whole images is mean or max over dimensions 2 and 3.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/detail/math.h"
#include "trireme/op/nn/cut_windows.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

struct PoolGeometry {
  std::int64_t n, c, h, w, oh, ow;
  std::int64_t window_h, window_w, stride_h, stride_w, pad_h, pad_w;

  Shape in_shape() const { return {n, c, h, w}; }
  Shape out_shape() const { return {n, c, oh, ow}; }
  double taps() const;          // elements of all windows of all planes
  double window_depth() const;  // of a tree that folds the largest window
};

// window_h, window_w, stride_h, stride_w, pad_h, pad_w.
std::vector<AttrSpec> pool_attrs();
Attrs pool_attrs_of(const Attrs& attrs);  // those six of another node
Result<PoolGeometry> pool_geometry(const TensorType& x, const Attrs& attrs);
// Samples and channels, all inputs and the output alike.
std::vector<LayoutOption> pool_layout(TypeSpan in, const Attrs& attrs);
// The same, and rewritten rows and columns.
std::vector<LayoutOption> pool_sides_layout(TypeSpan in, const Attrs& attrs);
Sliding sliding(const PoolGeometry& g, int dim);
// Attributes of another node without padding along a side.
Attrs unpadded_pool(Attrs attrs, int dim);
// The rows or columns of x that this position's windows see.
Value seen_by_windows(CutBuilder& b, Value x, const PoolGeometry& g, int dim, double fill);
// `per_tap` operations for each element of each window and `per_window` for each window.
cost::OpCost pool_cost(const PoolGeometry& g, double per_tap, double per_window, double bytes);

// The part of a window that lies inside the image.
struct PoolWindow {
  std::int64_t h0, h1, w0, w1;
};
inline PoolWindow window_at(const PoolGeometry& g, std::int64_t oh, std::int64_t ow) {
  const std::int64_t h = oh * g.stride_h - g.pad_h, w = ow * g.stride_w - g.pad_w;
  return {std::max<std::int64_t>(h, 0), std::min(h + g.window_h, g.h), std::max<std::int64_t>(w, 0),
          std::min(w + g.window_w, g.w)};
}

// Calls body(plane, n, c) with the first element of every plane of x.
template <typename T, typename Body>
void for_each_plane(const PoolGeometry& g, const Tensor& x, Body&& body) {
  for (std::int64_t n = 0; n < g.n; ++n) {
    for (std::int64_t c = 0; c < g.c; ++c) body(x.data<T>() + n * x.strides()[0] + c * x.strides()[1], n, c);
  }
}

// out[window] = f(plane, strides of x, window), in the order of the output.
template <typename T, typename F>
void map_windows(const PoolGeometry& g, const Tensor& x, T* out, F&& f) {
  for_each_plane<T>(g, x, [&](const T* plane, std::int64_t, std::int64_t) {
    for (std::int64_t oh = 0; oh < g.oh; ++oh) {
      for (std::int64_t ow = 0; ow < g.ow; ++ow) {
        *out++ = static_cast<T>(f(plane, x.strides(), window_at(g, oh, ow)));
      }
    }
  });
}

// Folds the elements of a window in row-major order.
template <typename T, typename Fold>
Acc<T> fold_window(const T* plane, const Strides& s, const PoolWindow& v, Fold fold) {
  Acc<T> total = 0;
  for (std::int64_t h = v.h0; h < v.h1; ++h) {
    for (std::int64_t w = v.w0; w < v.w1; ++w) {
      const Acc<T> e = plane[h * s[2] + w * s[3]];
      total = fold(total, e);
    }
  }
  return total;
}

// Calls hit(n, c, output row, column, ih, iw) with the first maximum of every window in row-major order; a
// NaN wins.
template <typename T, typename Hit>
void for_each_maximum(const PoolGeometry& g, const Tensor& x, Hit&& hit) {
  const Strides& s = x.strides();
  const auto pool = [&](const T* plane, std::int64_t n, std::int64_t c, std::int64_t oh, std::int64_t ow) {
    const PoolWindow v = window_at(g, oh, ow);
    std::int64_t best_h = v.h0, best_w = v.w0;
    Acc<T> best = plane[v.h0 * s[2] + v.w0 * s[3]];
    for (std::int64_t h = v.h0; h < v.h1; ++h) {
      for (std::int64_t w = v.w0; w < v.w1; ++w) {
        const Acc<T> e = plane[h * s[2] + w * s[3]];
        if (!math::isnan(best) && (e > best || math::isnan(e))) best = e, best_h = h, best_w = w;
      }
    }
    hit(n, c, oh, ow, best_h, best_w);
  };
  for_each_plane<T>(g, x, [&](const T* plane, std::int64_t n, std::int64_t c) {
    for (std::int64_t oh = 0; oh < g.oh; ++oh) {
      for (std::int64_t ow = 0; ow < g.ow; ++ow) pool(plane, n, c, oh, ow);
    }
  });
}

}  // namespace trireme::op::detail
