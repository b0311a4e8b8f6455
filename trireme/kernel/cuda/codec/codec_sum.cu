// The sum of messages; comes behind the text of an encoding.
#pragma once

#include "trireme/kernel/cuda/codec/codec_plain.cu"

#pragma text kCodecSumText
// What is framed is added to zeros, as codec::Packer does it.
struct LoadPlain {
  const Messages& in;
  i64 at;
  int framed;
  __device__ __forceinline__ float operator()(int m) const {
    const float v = getf(in.m[m] + at);
    return framed ? __fadd_rn(0.0f, v) : v;
  }
};
// From tile `first` on.
extern "C" __global__ void sum_messages(const Piece* pieces, int num, i64 first, i64 tiles, int framed,
                                        u32 wire_id, Messages in, float* out, u32* wrong) {
  for (i64 tile = first + blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int index = piece_of_tile(pieces, num, tile);
    const Piece p = pieces[index];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin);
    float* to = out + p.offset + begin;
    if (p.plain) {
      for (int i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = total(LoadPlain{in, p.place + 4 * (begin + i), framed});
      continue;
    }
    if (framed && begin == 0)
      for (int m = threadIdx.x; m < kMessages; m += blockDim.x)
        if (!has_frame(p, index, wire_id, own_byte(p), message_length(p), in.m[m])) *wrong = 1;
    sum_coded(p, begin, n, framed, in, to);
  }
}
