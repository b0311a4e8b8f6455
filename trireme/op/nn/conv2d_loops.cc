// The loops of the convolution family: plain sums, one output element at a time.
#include "trireme/op/nn/conv2d.h"

namespace trireme::op::detail {
namespace {

// Calls body(n, channel, row, column) for every element of a [N,C,H,W] tensor, in order.
template <typename Body>
void for_each_pixel(const Shape& s, Body&& body) {
  for (std::int64_t n = 0; n < s[0]; ++n) {
    for (std::int64_t c = 0; c < s[1]; ++c) {
      for (std::int64_t h = 0; h < s[2]; ++h) {
        for (std::int64_t w = 0; w < s[3]; ++w) body(n, c, h, w);
      }
    }
  }
}

// The output position whose tap `k` reads input position `at`, or -1.
std::int64_t position_reading(std::int64_t at, std::int64_t k, std::int64_t stride, std::int64_t pad,
                              std::int64_t dilation, std::int64_t out) {
  const std::int64_t from = at + pad - k * dilation;
  return from < 0 || from % stride != 0 || from / stride >= out ? -1 : from / stride;
}

template <typename T>
Acc<T> forward_element(const ConvGeometry& g, const T* x, const Strides& s, const T* filter,
                       const FilterStrides& f, std::int64_t oh, std::int64_t ow) {
  using A = Acc<T>;
  const std::int64_t h0 = oh * g.stride_h - g.pad_h, w0 = ow * g.stride_w - g.pad_w;
  const Inside rows = inside(h0, g.dilation_h, g.h, g.kh), cols = inside(w0, g.dilation_w, g.w, g.kw);
  A total = 0;
  for (std::int64_t c = 0; c < g.cg; ++c) {
    for (std::int64_t kh = rows.begin; kh < rows.end; ++kh) {
      const T* row = x + c * s[1] + (h0 + kh * g.dilation_h) * s[2] + w0 * s[3];
      const T* taps = filter + c * f.c + kh * f.kh;
      for (std::int64_t kw = cols.begin; kw < cols.end; ++kw) {
        const A v = row[kw * g.dilation_w * s[3]], t = taps[kw * f.kw];
        total += t * v;
      }
    }
  }
  return total;
}

template <typename T>
Acc<T> input_grad_element(const ConvGeometry& g, const T* filter, const FilterStrides& f, const T* dy,
                          const Strides& s, std::int64_t ih, std::int64_t iw) {
  using A = Acc<T>;
  A total = 0;
  for (std::int64_t o = 0; o < g.o / g.groups; ++o) {
    for (std::int64_t kh = 0; kh < g.kh; ++kh) {
      const std::int64_t oh = position_reading(ih, kh, g.stride_h, g.pad_h, g.dilation_h, g.oh);
      if (oh < 0) continue;
      for (std::int64_t kw = 0; kw < g.kw; ++kw) {
        const std::int64_t ow = position_reading(iw, kw, g.stride_w, g.pad_w, g.dilation_w, g.ow);
        if (ow < 0) continue;
        const A t = filter[oh * f.oh + ow * f.ow + o * f.o + kh * f.kh + kw * f.kw];
        const A d = dy[o * s[1] + oh * s[2] + ow * s[3]];
        total += t * d;
      }
    }
  }
  return total;
}

template <typename T>
Acc<T> filter_grad_element(const ConvGeometry& g, const T* x, const Strides& xs, const T* dy,
                           const Strides& ys, std::int64_t kh, std::int64_t kw) {
  using A = Acc<T>;
  const std::int64_t h0 = kh * g.dilation_h - g.pad_h, w0 = kw * g.dilation_w - g.pad_w;
  const Inside rows = inside(h0, g.stride_h, g.h, g.oh), cols = inside(w0, g.stride_w, g.w, g.ow);
  A total = 0;
  for (std::int64_t n = 0; n < g.n; ++n) {
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
      const T* row = x + n * xs[0] + (h0 + oh * g.stride_h) * xs[2] + w0 * xs[3];
      const T* d_row = dy + n * ys[0] + oh * ys[2];
      for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) {
        const A v = row[ow * g.stride_w * xs[3]], d = d_row[ow * ys[3]];
        total += v * d;
      }
    }
  }
  return total;
}
}  // namespace

void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& filter, const FilterStrides& f,
                  const Tensor& y) {
  const Strides& s = x.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *xs = x.data<T>(), *filters = filter.data<T>();
    T* out = y.data<T>();
    for_each_pixel(g.out_shape(), [&](auto n, auto o, auto oh, auto ow) {
      const T* image = xs + n * s[0] + g.first_channel(o) * s[1];
      const T* own = filters + o * f.o + oh * f.oh + ow * f.ow;
      *out++ = static_cast<T>(forward_element<T>(g, image, s, own, f, oh, ow));
    });
  });
}

void conv_input_grad(const ConvGeometry& g, const Tensor& filter, const FilterStrides& f, const Tensor& dy,
                     const Tensor& dx) {
  const Strides& s = dy.strides();
  dispatch_float(dx.dtype(), [&]<typename T>() {
    const T *filters = filter.data<T>(), *dys = dy.data<T>();
    T* out = dx.data<T>();
    for_each_pixel(g.in_shape(), [&](auto n, auto c, auto ih, auto iw) {
      const std::int64_t first = c / g.cg * (g.o / g.groups);  // output channel of c's group
      const T* own = filters + first * f.o + c % g.cg * f.c;
      const T* image = dys + n * s[0] + first * s[1];
      *out++ = static_cast<T>(input_grad_element<T>(g, own, f, image, s, ih, iw));
    });
  });
}

void conv_filter_grad(const ConvGeometry& g, const Tensor& x, const Tensor& dy, const Tensor& df) {
  const Strides &xs = x.strides(), &ys = dy.strides();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *images = x.data<T>(), *dys = dy.data<T>();
    T* out = df.data<T>();
    for_each_pixel({g.o, g.cg, g.kh, g.kw}, [&](auto o, auto c, auto kh, auto kw) {
      const T* plane = images + (g.first_channel(o) + c) * xs[1];
      *out++ = static_cast<T>(filter_grad_element<T>(g, plane, xs, dys + o * ys[1], ys, kh, kw));
    });
  });
}

}  // namespace trireme::op::detail
