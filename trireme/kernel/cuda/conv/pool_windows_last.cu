// Pooling over windows of images whose channels are last in memory.
#pragma once

#include "trireme/kernel/cuda/conv/pool.cu"

constexpr int kPack = 4;
typedef u32 Flat;

#pragma text kPoolWindowsLastText
// A thread has kPack neighbouring channels of one window; threads beside each other have the next channels.
struct Sizes {
  i64 images, h, w, oh, ow, packs;
};  // packs: of kPack channels

template <class E>
inline Pack<E, kPack> load_pack(const E* p, int aligned) {
  if (aligned) return *(const Pack<E, kPack>*)p;
  Pack<E, kPack> out;
#pragma unroll
  for (int k = 0; k < kPack; ++k) out.v[k] = p[k];
  return out;
}
template <class E>
inline void store_pack(E* p, const Pack<E, kPack>& v, int aligned) {
  if (aligned) {
    *(Pack<E, kPack>*)p = v;
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) p[k] = v.v[k];
}

extern "C" __global__ void pool_windows(const In* __restrict__ x, const Given* __restrict__ picked,
                                        Out* __restrict__ out, Where* __restrict__ places, Sizes s,
                                        double eps, int aligned) {
  const Int h = (Int)s.h, w = (Int)s.w;
  const i64 total_packs = s.images * s.oh * s.ow * s.packs, channels = s.packs * kPack;
  // What lies outside never wins, so a window of nothing else than -inf keeps its first element.
  const A low = -(A)__int_as_float(0x7f800000), outside = kMode <= kWhere ? low : A(0);
  for (i64 i = first_index(); i < total_packs; i += grid_step()) {
    const Flat window = (Flat)i / (Flat)s.packs, image = window / (Flat)s.ow / (Flat)s.oh;
    const i64 channel = (i64)((Flat)i % (Flat)s.packs) * kPack;
    const Int top = (Int)(window / (Flat)s.ow % (Flat)s.oh) * kStrideH - kPadH;
    const Int left = (Int)(window % (Flat)s.ow) * kStrideW - kPadW;
    const Int a0 = kSmall || top > 0 ? 0 : -top, a1 = kSmall || h - top > kWindowH ? kWindowH : h - top;
    const Int b0 = kSmall || left > 0 ? 0 : -left, b1 = kSmall || w - left > kWindowW ? kWindowW : w - left;
    const Int first_row = top > 0 ? top : 0, first_column = left > 0 ? left : 0;
    const i64 base = (i64)image * s.h * s.w * channels + channel;
    A best[kPack], total[kPack];
    Int where[kPack];  // of the first maximum: its tap in a small window, else its place in the plane
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      best[k] = low;
      total[k] = 0;
      where[k] = kSmall ? (first_row - top) * kWindowW + first_column - left : first_row * w + first_column;
    }
#pragma unroll kUnroll
    for (Int a = a0; a < a1; ++a) {
#pragma unroll kUnroll
      for (Int b = b0; b < b1; ++b) {
        const Int r = top + a, c = left + b;
        const bool inside = !kPadded || (r >= 0 && r < h && c >= 0 && c < w);
        Pack<In, kPack> some;
        if (inside) some = load_pack(x + base + ((i64)r * w + c) * channels, aligned);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          const A e = inside ? (A)load_acc(some.v[k]) : outside;
          if (kMode == kAverage) total[k] += e;
          if (kMode == kRoot) total[k] += e * e;
          if (kMode <= kWhere && best[k] == best[k] && !(e <= best[k])) {  // larger, or the first NaN
            best[k] = e;
            where[k] = kSmall ? a * kWindowW + b : r * w + c;
          }
        }
      }
    }
    const i64 to = (i64)window * channels + channel;
    if (kMode == kBoth || kMode == kWhere) {
      Pack<Where, kPack> found;
#pragma unroll
      for (int k = 0; k < kPack; ++k) found.v[k] = (Where)where[k];
      store_pack(places + to, found, aligned);
      if (kMode == kWhere) continue;
    }
    const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - first_row;
    const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - first_column;
    const A count = (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns);
    Pack<Out, kPack> made;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (kMode == kMax || kMode == kBoth) made.v[k] = store_acc<Out>(best[k]);
      if (kMode == kRoot) made.v[k] = store_acc<Out>(sqrt(total[k] + (A)eps));
      if (kMode == kAverage) made.v[k] = store_acc<Out>(total[k] / count);
      if (kMode == kPick) {
        const Int r = kSmall ? top + where[k] / kWindowW : where[k] / w;
        const Int c = kSmall ? left + where[k] % kWindowW : where[k] % w;
        made.v[k] = store_acc<Out>(load_acc(picked[base + ((i64)r * w + c) * channels + k]));
      }
    }
    store_pack(out + to, made, aligned);
  }
}
