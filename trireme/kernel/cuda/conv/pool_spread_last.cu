// Gradients of pooling over images whose channels are last in memory.
#pragma once

#include "trireme/kernel/cuda/conv/pool.cu"

constexpr int kPack = 4;
typedef u32 Flat;

#pragma text kPoolSpreadLastText
// A thread has kPack channels of one element of dx and adds over the windows that lie on it.
struct Sizes {
  i64 images, h, w, oh, ow, packs;
};

extern "C" __global__ void pool_spread(const Where* __restrict__ where, const Given* __restrict__ dy,
                                       Out* __restrict__ dx, Sizes s, int aligned) {
  const Int h = (Int)s.h, w = (Int)s.w, oh = (Int)s.oh, ow = (Int)s.ow;
  const i64 total_packs = s.images * s.h * s.w * s.packs, channels = s.packs * kPack;
  for (i64 i = first_index(); i < total_packs; i += grid_step()) {
    const Flat pixel = (Flat)i / (Flat)s.packs, image = pixel / (Flat)s.w / (Flat)s.h;
    const i64 channel = (i64)((Flat)i % (Flat)s.packs) * kPack;
    const Int r = (Int)(pixel / (Flat)s.w % (Flat)s.h), c = (Int)(pixel % (Flat)s.w);
    const Int row0 = r + kPadH < kWindowH ? 0 : (r + kPadH - kWindowH) / kStrideH + 1;
    const Int column0 = c + kPadW < kWindowW ? 0 : (c + kPadW - kWindowW) / kStrideW + 1;
    const Int row1 = (r + kPadH) / kStrideH, column1 = (c + kPadW) / kStrideW;
    A sums[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) sums[k] = 0;
    for (Int row = row0; row <= row1 && row < oh; ++row) {
      for (Int column = column0; column <= column1 && column < ow; ++column) {
        const i64 at = (((i64)image * oh + row) * ow + column) * channels + channel;
        const Int top = row * kStrideH - kPadH, left = column * kStrideW - kPadW;
        Pack<Given, kPack> some;
        Pack<Where, kPack> found;
        if (aligned) some = *(const Pack<Given, kPack>*)(dy + at);
        if (aligned && kMode == kMax) found = *(const Pack<Where, kPack>*)(where + at);
        if (!aligned) {
#pragma unroll
          for (int k = 0; k < kPack; ++k) {
            some.v[k] = dy[at + k];
            if (kMode == kMax) found.v[k] = where[at + k];
          }
        }
        const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - (top > 0 ? top : 0);
        const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - (left > 0 ? left : 0);
        const A count = (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns);
        const Int own = kSmall ? (r - top) * kWindowW + c - left : r * w + c;
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          const A d = load_acc(some.v[k]);
          if (kMode != kMax)
            sums[k] += d / count;
          else if ((Int)found.v[k] == own)
            sums[k] += d;
        }
      }
    }
    Pack<Out, kPack> made;
#pragma unroll
    for (int k = 0; k < kPack; ++k) made.v[k] = store_acc<Out>(sums[k]);
    Out* to = dx + (i64)pixel * channels + channel;
    if (aligned) {
      *(Pack<Out, kPack>*)to = made;
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) to[k] = made.v[k];
    }
  }
}
