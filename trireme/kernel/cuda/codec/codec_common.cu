// What messages of all encodings share: pieces, tiles, frames, velocities.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

#pragma text kCodecCommonText
// Numbers in messages lie at any byte.
struct Piece {
  i64 offset, count, place, plain, tile, chunk, kept, rice, first, bits, words;
};
constexpr int TILE = 2048;

__device__ __forceinline__ u32 get32(const u8* at) {
  if (((u64)at & 3) == 0) return *(const u32*)at;
  return (u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
__device__ __forceinline__ void put32(u8* at, u32 v) {
  if (((u64)at & 3) == 0) {
    *(u32*)at = v;
    return;
  }
  for (int k = 0; k < 4; ++k) at[k] = (u8)(v >> 8 * k);
}
__device__ __forceinline__ float getf(const u8* at) { return __uint_as_float(get32(at)); }
__device__ __forceinline__ void putf(u8* at, float v) { put32(at, __float_as_uint(v)); }
typedef Pack<float, 4> Four;
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ Four add(Four a, Four b) {
  return {{add(a.v[0], b.v[0]), add(a.v[1], b.v[1]), add(a.v[2], b.v[2]), add(a.v[3], b.v[3])}};
}
__device__ __forceinline__ bool is_negative(float v) { return (__float_as_uint(v) >> 31) != 0; }

__device__ __forceinline__ int piece_of_tile(const Piece* p, int num, i64 tile) {
  int low = 0, high = num - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p[middle].tile <= tile)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}
__device__ __forceinline__ int tile_elems(const Piece& p, i64 begin) {
  return (int)(p.count - begin < TILE ? p.count - begin : TILE);
}

__device__ __forceinline__ void put_frame(const Piece& p, int index, u32 wire_id, u32 own, u32 length,
                                          u8* message, u8* at) {
  put32(message + 4 * index, length);
  put32(at, wire_id | own << 8);
  put32(at + 4, (u32)p.count);
}
__device__ __forceinline__ bool has_frame(const Piece& p, int index, u32 wire_id, u32 own, u32 length,
                                          const u8* message) {
  const u8* at = message + p.place;
  return get32(message + 4 * index) == length && get32(at) == (wire_id | own << 8) &&
         get32(at + 4) == (u32)p.count;
}
__device__ __forceinline__ void copy_plain(const Piece& p, i64 begin, int n, const float* values, u8* message,
                                           int t, int step) {
  for (int i = t; i < n; i += step) putf(message + p.place + 4 * (begin + i), values[p.offset + begin + i]);
}

// In coded pieces, velocity = momentum velocity + values.
extern "C" __global__ void update_velocity(const Piece* pieces, int num, i64 tiles, float momentum,
                                           const float* values, float* velocity) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE, n = tile_elems(p, begin);
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + begin + n; i += blockDim.x)
      velocity[i] = __fadd_rn(__fmul_rn(momentum, velocity[i]), values[i]);
  }
}
// What was sent whole starts with no momentum.
extern "C" __global__ void mask_velocity(const Piece* pieces, int num, i64 tiles, const float* residual,
                                         float* velocity) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE, n = tile_elems(p, begin);
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + begin + n; i += blockDim.x)
      if (residual[i] == 0.0f) velocity[i] = 0.0f;
  }
}

#pragma text end
// Messages and their sum in the order that was asked for, which codec_text.cc writes.
constexpr int kMessages = 2;
struct Messages {
  const u8* m[kMessages];
};
template <class L>
__device__ __forceinline__ auto total(const L& load) {
  const auto t0 = add(load(0), load(1));
  return t0;
}
