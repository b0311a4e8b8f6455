// Gradients of pooling over planes.
#pragma once

#include "trireme/kernel/cuda/conv/pool.cu"

#pragma text kPoolShareText
// Gradients of max pooling (where: which tap of each window is its maximum) and of averages. A thread has a
// patch of one stride by one stride of dx, since the windows over it are then at constant distances.
struct Sizes {
  i64 planes, h, w, oh, ow, group;
};

__device__ A share(const Given* dy, i64 at, Int row, Int column, Int h, Int w) {
  const A d = load_acc(dy[at]);
  if (kMode == kMax) return d;
  const Int top = row * kStrideH - kPadH, left = column * kStrideW - kPadW;
  const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - (top > 0 ? top : 0);
  const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - (left > 0 ? left : 0);
  return d / (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns);
}

#pragma text kPoolPatchesText
extern "C" __global__ void pool_spread_patches(const Where* __restrict__ where, const Given* __restrict__ dy,
                                               Out* __restrict__ dx, Sizes s, int packed) {
  // Windows over rows 0 ... kStrideH - 1 of a patch, counted from the window that begins at its row -kPadH.
  constexpr int kFirstH = -((kWindowH - 1 - kPadH) / kStrideH), kLastH = (kStrideH - 1 + kPadH) / kStrideH;
  constexpr int kFirstW = -((kWindowW - 1 - kPadW) / kStrideW), kLastW = (kStrideW - 1 + kPadW) / kStrideW;
  constexpr int kPack = kStrideW == 2 || kStrideW == 4 ? kStrideW : 1;
  const Int h = (Int)s.h, w = (Int)s.w, oh = (Int)s.oh, ow = (Int)s.ow;
  const Int patches_w = (w + kStrideW - 1) / kStrideW, per_plane = (h + kStrideH - 1) / kStrideH * patches_w;
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int pr = (Int)(at % per_plane) / patches_w, pc = (Int)(at % per_plane) % patches_w;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    const i64 windows = p * s.oh * s.ow;
    A sums[kStrideH][kStrideW] = {};
#pragma unroll
    for (int i = kFirstH; i <= kLastH; ++i) {
#pragma unroll
      for (int j = kFirstW; j <= kLastW; ++j) {
        const Int row = pr + i, column = pc + j;
        const bool there = row >= 0 && row < oh && column >= 0 && column < ow;
        const i64 window = windows + row * ow + column;
        const A d = there ? share(dy, window, row, column, h, w) : A(0);
        const int hit = kMode == kMax && there ? (int)where[window] : -1;
#pragma unroll
        for (int r = 0; r < kStrideH; ++r) {
#pragma unroll
          for (int c = 0; c < kStrideW; ++c) {
            const int a = r - i * kStrideH + kPadH, b = c - j * kStrideW + kPadW;
            if (a < 0 || a >= kWindowH || b < 0 || b >= kWindowW) continue;
            if (kMode == kMax ? hit == a * kWindowW + b : there) sums[r][c] += d;
          }
        }
      }
    }
    Out* to = dx + p * s.h * s.w + (i64)pr * kStrideH * w + (i64)pc * kStrideW;
#pragma unroll
    for (int r = 0; r < kStrideH; ++r) {
      if (pr * kStrideH + r >= h) continue;
      Pack<Out, kPack> row[kStrideW / kPack];
#pragma unroll
      for (int c = 0; c < kStrideW; ++c) row[c / kPack].v[c % kPack] = store_acc<Out>(sums[r][c]);
      if (packed) {
        *(Pack<Out, kPack>*)(to + (i64)r * w) = row[0];
        continue;
      }
#pragma unroll
      for (int c = 0; c < kStrideW; ++c)
        if (pc * kStrideW + c < w) to[(i64)r * w + c] = row[c / kPack].v[c % kPack];
    }
  }
}

#pragma text kPoolSpreadText
extern "C" __global__ void pool_spread(const Where* __restrict__ where, const Given* __restrict__ dy,
                                       Out* __restrict__ dx, Sizes s, int) {
  const Int h = (Int)s.h, w = (Int)s.w, oh = (Int)s.oh, ow = (Int)s.ow, per_plane = h * w;
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int place = (Int)(at % per_plane), r = place / w, c = place % w;
  const Int row0 = r + kPadH < kWindowH ? 0 : (r + kPadH - kWindowH) / kStrideH + 1;
  const Int column0 = c + kPadW < kWindowW ? 0 : (c + kPadW - kWindowW) / kStrideW + 1;
  const Int row1 = (r + kPadH) / kStrideH, column1 = (c + kPadW) / kStrideW;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    A sum = 0;
    for (Int row = row0; row <= row1 && row < oh; ++row) {
      for (Int column = column0; column <= column1 && column < ow; ++column) {
        const i64 window = p * s.oh * s.ow + row * ow + column;
        if (kMode == kMax) {
          const Int tap = (r - row * kStrideH + kPadH) * kWindowW + c - column * kStrideW + kPadW;
          if ((Int)where[window] != (kSmall ? tap : place)) continue;
        }
        sum += share(dy, window, row, column, h, w);
      }
    }
    dx[p * s.h * s.w + place] = store_acc<Out>(sum);
  }
}
