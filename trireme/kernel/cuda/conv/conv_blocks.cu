// Images and filters as blocks of pixels (conv_blocks.h).
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

constexpr int kC = 3, kSh = 2, kSw = 2, kWide = 16, kPack = 8;

#pragma text kConvBlocksText
// kC channels, blocks of kSh x kSw pixels, kWide channels of a block.
struct Image {
  i64 packs;
  int h, w, rows, columns, pad_h, pad_w;
};
struct Filter {
  i64 elems;
  int kh, kw, dilation_h, dilation_w, rows, columns;
};
// Where channel `at` of a block is from.
struct Place {
  int r, t, c;
  __device__ Place(int at) : r(at / (kSw * kC)), t(at / kC % kSw), c(at % kC) {}
};

// A thread has kPack channels of a block.
extern "C" __global__ void block_image(const u16* x, u16* to, Image g) {
  for (i64 i = first_index(); i < g.packs; i += grid_step()) {
    const int first = (int)(i % (kWide / kPack)) * kPack;
    const i64 block = i / (kWide / kPack), line = block / g.columns;
    const int top = (int)(line % g.rows) * kSh - g.pad_h, left = (int)(block % g.columns) * kSw - g.pad_w;
    const u16* image = x + line / g.rows * g.h * g.w * kC;
    Pack<u16, kPack> all;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const Place p(first + k);
      const int row = top + p.r, column = left + p.t;
      const bool there = p.r < kSh && row >= 0 && row < g.h && column >= 0 && column < g.w;
      all.v[k] = there ? image[((i64)row * g.w + column) * kC + p.c] : (u16)0;
    }
    *(Pack<u16, kPack>*)(to + i * kPack) = all;
  }
}
extern "C" __global__ void block_filter(const u16* filter, u16* to, Filter g) {
  for (i64 i = first_index(); i < g.elems; i += grid_step()) {
    const Place p((int)(i % kWide));
    const i64 tap = i / kWide, line = tap / g.columns;
    const int row = (int)(line % g.rows) * kSh + p.r, column = (int)(tap % g.columns) * kSw + p.t;
    const int kh = row / g.dilation_h, kw = column / g.dilation_w;
    const bool there =
        p.r < kSh && row % g.dilation_h == 0 && column % g.dilation_w == 0 && kh < g.kh && kw < g.kw;
    to[i] = there ? filter[((line / g.rows * g.kh + kh) * g.kw + kw) * kC + p.c] : (u16)0;
  }
}
extern "C" __global__ void unblock_filter(const u16* from, u16* filter, Filter g) {
  for (i64 i = first_index(); i < g.elems; i += grid_step()) {
    const int c = (int)(i % kC), kw = (int)(i / kC % g.kw), kh = (int)(i / kC / g.kw % g.kh);
    const i64 o = i / kC / g.kw / g.kh;
    const int row = kh * g.dilation_h, column = kw * g.dilation_w;
    const i64 tap = (o * g.rows + row / kSh) * g.columns + column / kSw;
    filter[i] = from[tap * kWide + (row % kSh * kSw + column % kSw) * kC + c];
  }
}
