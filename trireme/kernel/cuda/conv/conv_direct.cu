// Convolutions of any dtype and geometry.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
constexpr bool kLast = false;

#pragma text kConvDirectText
// One sum per element, as in op/nn/conv2d.h. Geometry is ConvGeometry, field by field. The filter's gradient
// adds over samples and positions, which are many: a block per element.
struct Geometry {
  i64 n, c, h, w, o, cg, kh, kw, oh, ow, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
};

// Where element (a, b, r, s) of [.., channels, height, width] lies, b of `channels`.
inline i64 place(i64 a, i64 b, i64 r, i64 s, i64 channels, i64 height, i64 width) {
  return kLast ? ((a * height + r) * width + s) * channels + b
               : ((a * channels + b) * height + r) * width + s;
}

extern "C" __global__ void conv_forward(const T* x, const T* filter, T* y, Geometry g) {
  const i64 total = g.n * g.o * g.oh * g.ow;
  for (i64 i = first_index(); i < total; i += grid_step()) {
    const i64 ow = i % g.ow, oh = i / g.ow % g.oh, o = i / (g.ow * g.oh) % g.o, n = i / (g.ow * g.oh * g.o);
    const i64 c0 = o / (g.o / g.groups) * g.cg;
    acc_t<T> sum = 0;
    for (i64 c = 0; c < g.cg; ++c)
      for (i64 kh = 0; kh < g.kh; ++kh) {
        const i64 ih = oh * g.stride_h - g.pad_h + kh * g.dilation_h;
        if (ih < 0 || ih >= g.h) continue;
        for (i64 kw = 0; kw < g.kw; ++kw) {
          const i64 iw = ow * g.stride_w - g.pad_w + kw * g.dilation_w;
          if (iw < 0 || iw >= g.w) continue;
          sum += load_acc(filter[place(o, c, kh, kw, g.cg, g.kh, g.kw)]) *
                 load_acc(x[place(n, c0 + c, ih, iw, g.c, g.h, g.w)]);
        }
      }
    y[place(n, o, oh, ow, g.o, g.oh, g.ow)] = store_acc<T>(sum);
  }
}

extern "C" __global__ void conv_input_grad(T* x, const T* filter, const T* y, Geometry g) {
  const i64 total = g.n * g.c * g.h * g.w, outs = g.o / g.groups;
  for (i64 i = first_index(); i < total; i += grid_step()) {
    const i64 iw = i % g.w, ih = i / g.w % g.h, c = i / (g.w * g.h) % g.c, n = i / (g.w * g.h * g.c);
    const i64 o0 = c / g.cg * outs;
    acc_t<T> sum = 0;
    for (i64 o = o0; o < o0 + outs; ++o)
      for (i64 kh = 0; kh < g.kh; ++kh) {
        const i64 down = ih + g.pad_h - kh * g.dilation_h, oh = down / g.stride_h;
        if (down < 0 || down % g.stride_h != 0 || oh >= g.oh) continue;
        for (i64 kw = 0; kw < g.kw; ++kw) {
          const i64 right = iw + g.pad_w - kw * g.dilation_w, ow = right / g.stride_w;
          if (right < 0 || right % g.stride_w != 0 || ow >= g.ow) continue;
          sum += load_acc(filter[place(o, c % g.cg, kh, kw, g.cg, g.kh, g.kw)]) *
                 load_acc(y[place(n, o, oh, ow, g.o, g.oh, g.ow)]);
        }
      }
    x[place(n, c, ih, iw, g.c, g.h, g.w)] = store_acc<T>(sum);
  }
}

extern "C" __global__ void conv_filter_grad(const T* x, T* filter, const T* y, Geometry g) {
  const i64 total = g.o * g.cg * g.kh * g.kw, pixels = g.oh * g.ow;
  for (i64 i = blockIdx.x; i < total; i += gridDim.x) {
    const i64 kw = i % g.kw, kh = i / g.kw % g.kh, c = i / (g.kw * g.kh) % g.cg, o = i / (g.kw * g.kh * g.cg);
    const i64 channel = o / (g.o / g.groups) * g.cg + c;
    acc_t<T> sum = 0;
    for (i64 p = threadIdx.x; p < g.n * pixels; p += blockDim.x) {
      const i64 n = p / pixels, at = p % pixels;
      const i64 ih = at / g.ow * g.stride_h - g.pad_h + kh * g.dilation_h;
      const i64 iw = at % g.ow * g.stride_w - g.pad_w + kw * g.dilation_w;
      if (ih < 0 || ih >= g.h || iw < 0 || iw >= g.w) continue;
      sum += load_acc(x[place(n, channel, ih, iw, g.c, g.h, g.w)]) *
             load_acc(y[place(n, o, at / g.ow, at % g.ow, g.o, g.oh, g.ow)]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) filter[place(o, c, kh, kw, g.cg, g.kh, g.kw)] = store_acc<T>(sum);
  }
}
