// Pooling over windows of planes.
#pragma once

#include "trireme/kernel/cuda/conv/pool.cu"

#pragma text kPoolWindowsText
// A thread has one window position and takes it in every group-th plane: its place is divided out once.
struct Sizes {
  i64 planes, h, w, oh, ow, group;
};

extern "C" __global__ void pool_windows(const In* __restrict__ x, const Given* __restrict__ picked,
                                        Out* __restrict__ out, Where* __restrict__ places, Sizes s,
                                        double eps) {
  const Int h = (Int)s.h, w = (Int)s.w, ow = (Int)s.ow, per_plane = (Int)(s.oh * s.ow);
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int place = (Int)(at % per_plane), top = place / ow * kStrideH - kPadH,
            left = place % ow * kStrideW - kPadW;
  // Small windows are walked whole, large ones as far as they lie inside.
  const Int a0 = kSmall || top > 0 ? 0 : -top, a1 = kSmall || h - top > kWindowH ? kWindowH : h - top;
  const Int b0 = kSmall || left > 0 ? 0 : -left, b1 = kSmall || w - left > kWindowW ? kWindowW : w - left;
  // What lies outside never wins, so a window of nothing else than -inf keeps its first element.
  const A low = -(A)__int_as_float(0x7f800000), outside = kMode <= kWhere ? low : A(0);
  const Int first_row = top > 0 ? top : 0, first_column = left > 0 ? left : 0;
  const Int first =
      kSmall ? (first_row - top) * kWindowW + first_column - left : first_row * w + first_column;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    const In* plane = x + p * s.h * s.w;
    A best = low, total = 0;
    Int where = first;  // of the first maximum: its tap in a small window, else its place in the plane
#pragma unroll kUnroll
    for (Int a = a0; a < a1; ++a) {
#pragma unroll kUnroll
      for (Int b = b0; b < b1; ++b) {
        const Int r = top + a, c = left + b;
        const bool inside = !kPadded || (r >= 0 && r < h && c >= 0 && c < w);
        const A e = inside ? (A)load_acc(plane[r * w + c]) : outside;
        if (kMode == kAverage) total += e;
        if (kMode == kRoot) total += e * e;
        if (kMode <= kWhere && best == best && !(e <= best)) {  // larger, or the first NaN
          best = e;
          where = kSmall ? a * kWindowW + b : r * w + c;
        }
      }
    }
    const i64 to = p * per_plane + place;
    if (kMode == kMax || kMode == kBoth) out[to] = store_acc<Out>(best);
    if (kMode == kBoth || kMode == kWhere) places[to] = (Where)where;
    if (kMode == kPick) {
      const Int r = kSmall ? top + where / kWindowW : where / w;
      const Int c = kSmall ? left + where % kWindowW : where % w;
      out[to] = store_acc<Out>(load_acc(picked[p * s.h * s.w + r * w + c]));
    }
    if (kMode == kRoot) out[to] = store_acc<Out>(sqrt(total + (A)eps));
    if (kMode == kAverage) {
      const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - (top > 0 ? top : 0);
      const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - (left > 0 ? left : 0);
      out[to] = store_acc<Out>(total / (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns));
    }
  }
}
