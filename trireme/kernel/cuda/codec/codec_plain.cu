// Pieces that travel as f32, for encodings with kernels of their own.
#pragma once

#include "trireme/kernel/cuda/codec/codec_common.cu"

#pragma text kCodecPlainText
// Top-k has kernels of its own; plain pieces are copied.
__device__ __forceinline__ u32 message_length(const Piece&) { return 0; }
__device__ __forceinline__ u32 own_byte(const Piece&) { return 0; }
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int, u32,
                                          const float* values, const float*, float*, u8* message) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE;
    if (p.plain) copy_plain(p, begin, tile_elems(p, begin), values, message, threadIdx.x, blockDim.x);
  }
}
__device__ __forceinline__ void sum_coded(const Piece&, i64, int, int, const Messages&, float*) {}
