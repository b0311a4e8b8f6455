// Messages of 16-bit values.
#pragma once

#include "trireme/kernel/cuda/codec/codec_f16.cu"

#pragma text kCodecHalvesText
// Four values at a time where they begin at a multiple of 16 bytes, and their halves at one of 4; else one by
// one.
__device__ __forceinline__ u32 message_length(const Piece& p) { return 8u + 2u * (u32)p.count; }
__device__ __forceinline__ u32 own_byte(const Piece&) { return 0; }

__device__ __forceinline__ u32 encode_half(float value, float* r) {
  const float a = r ? __fadd_rn(value, *r) : value;
  const u32 h = to_half(a > LARGEST ? LARGEST : a < -LARGEST ? -LARGEST : a);
  if (r) *r = __fsub_rn(a, __fadd_rn(0.0f, of_half(h)));
  return h;
}
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int framed, u32 wire_id,
                                          const float* values, const float* coded, float* residual,
                                          u8* message) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int index = piece_of_tile(pieces, num, tile);
    const Piece p = pieces[index];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin), t = threadIdx.x;
    if (p.plain) {
      copy_plain(p, begin, n, values, message, t, blockDim.x);
      continue;
    }
    if (framed && begin == 0 && t == 0)
      put_frame(p, index, wire_id, 0, message_length(p), message, message + p.place);
    u16* to = (u16*)(message + p.place + (framed ? 8 : 0) + 2 * begin);
    const float* from = coded + p.offset + begin;
    float* r = residual ? residual + p.offset + begin : (float*)0;
    int done = 0;
    if ((((u64)from | (u64)r) & 15) == 0 && ((u64)to & 3) == 0) {
      done = n & ~3;
      for (int i = 4 * t; i < done; i += 4 * blockDim.x) {
        const Four v = *(const Four*)(from + i);
        Four kept;
        if (r) kept = *(const Four*)(r + i);
        u32 h[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) h[k] = encode_half(v.v[k], r ? kept.v + k : r);
        if (r) *(Four*)(r + i) = kept;
        ((u32*)to)[i / 2] = h[0] | h[1] << 16;
        ((u32*)to)[i / 2 + 1] = h[2] | h[3] << 16;
      }
    }
    for (int i = done + t; i < n; i += blockDim.x) to[i] = (u16)encode_half(from[i], r ? r + i : r);
  }
}

struct LoadHalf {
  const Messages& in;
  i64 at;
  __device__ __forceinline__ float operator()(int m) const {
    return __fadd_rn(0.0f, of_half(*(const u16*)(in.m[m] + at)));
  }
};
struct LoadHalves {
  const Messages& in;
  i64 at;
  __device__ __forceinline__ Four operator()(int m) const {
    const u32 *w = (const u32*)(in.m[m] + at), a = w[0], b = w[1];
    return {{__fadd_rn(0.0f, of_half(a & 0xffffu)), __fadd_rn(0.0f, of_half(a >> 16)),
             __fadd_rn(0.0f, of_half(b & 0xffffu)), __fadd_rn(0.0f, of_half(b >> 16))}};
  }
};
__device__ __forceinline__ void sum_coded(const Piece& p, i64 begin, int n, int framed, const Messages& in,
                                          float* out) {
  const i64 at = p.place + (framed ? 8 : 0) + 2 * begin;
  int done = 0;
  if ((at & 3) == 0 && ((u64)out & 15) == 0) {
    done = n & ~3;
    for (int i = 4 * threadIdx.x; i < done; i += 4 * blockDim.x)
      *(Four*)(out + i) = total(LoadHalves{in, at + 2 * i});
  }
  for (int i = done + threadIdx.x; i < n; i += blockDim.x) out[i] = total(LoadHalf{in, at + 2 * i});
}
