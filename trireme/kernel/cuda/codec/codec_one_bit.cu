// Messages of signs and of two means per block.
#pragma once

#include "trireme/kernel/cuda/codec/codec_common.cu"

#pragma text kCodecOneBitText
// A warp has a tile, block by block (2^rice values), and its values in registers. Sums are those of
// codec/loops.inc: 16 lanes per sign, which the 32 threads are, then a tree, then what is left over one by
// one.
constexpr u32 ALL = 0xffffffffu;
__device__ __forceinline__ i64 block_at(const Piece& p, i64 i) {
  return p.place + 8 + (i >> p.rice) * (8 + (1 << p.rice) / 8);
}
__device__ __forceinline__ u32 message_length(const Piece& p) {
  const i64 block = (i64)1 << p.rice;
  return (u32)(8 + (p.count + block - 1) / block * 8 + (p.count + 7) / 8);
}
__device__ __forceinline__ u32 own_byte(const Piece& p) { return (1 << p.rice) == TILE ? 0 : (u32)p.rice; }
__device__ __forceinline__ void encode_block(const float* from, float* r, int n, u8* to) {
  const int lane = threadIdx.x & 31, full = n & ~15, own = lane & 15;
  const bool low_half = lane >= 16;  // adds the negative ones
  float v[TILE / 32], sum = 0.0f, last = 0.0f;
  u32 first_word = 0, second_word = 0;
  int negative = 0;
#pragma unroll
  for (int k = 0; k < TILE / 32; ++k) {
    const int i = 32 * k + lane;
    v[k] = i < n ? from[i] : 0.0f;
    if (r && i < n) v[k] = __fadd_rn(v[k], r[i]);
  }
#pragma unroll
  for (int k = 0; k < TILE / 32; ++k) {
    const u32 word = __ballot_sync(ALL, 32 * k + lane < n && is_negative(v[k]));
    negative += __popc(word);
    if (k % 32 == lane) (k < 32 ? first_word : second_word) = word;
    const float a = __shfl_sync(ALL, v[k], own), b = __shfl_sync(ALL, v[k], 16 + own);
    if (32 * k < full) sum = __fadd_rn(sum, is_negative(a) == low_half ? a : 0.0f);
    if (32 * k + 16 < full) sum = __fadd_rn(sum, is_negative(b) == low_half ? b : 0.0f);
    if (k == full / 32) last = v[k];
  }
#pragma unroll
  for (int width = 8; width > 0; width /= 2) sum = __fadd_rn(sum, __shfl_down_sync(ALL, sum, width, 16));
  float high = __shfl_sync(ALL, sum, 0), low = __shfl_sync(ALL, sum, 16);
  for (int i = full; i < n; ++i) {
    const float a = __shfl_sync(ALL, last, i & 31);
    if (is_negative(a))
      low = __fadd_rn(low, a);
    else
      high = __fadd_rn(high, a);
  }
  const int positive = n - negative;
  high = positive > 0 ? __fdiv_rn(high, (float)positive) : 0.0f;
  low = negative > 0 ? __fdiv_rn(low, (float)negative) : 0.0f;
  if (lane == 0) {
    putf(to, high);
    putf(to + 4, low);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int byte = 4 * (lane + 32 * half), end = (n + 7) / 8;
    const u32 word = half ? second_word : first_word;
    if (byte + 4 <= end)
      put32(to + 8 + byte, word);
    else
      for (int k = 0; byte + k < end; ++k) to[8 + byte + k] = (u8)(word >> 8 * k);
  }
  if (!r) return;
#pragma unroll
  for (int k = 0; k < TILE / 32; ++k) {
    const int i = 32 * k + lane;
    if (i < n) r[i] = __fsub_rn(v[k], is_negative(v[k]) ? low : high);
  }
}
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int framed, u32 wire_id,
                                          const float* values, const float* coded, float* residual,
                                          u8* message) {
  const int warps = blockDim.x / 32;
  for (i64 tile = (i64)blockIdx.x * warps + threadIdx.x / 32; tile < tiles; tile += (i64)gridDim.x * warps) {
    const int index = piece_of_tile(pieces, num, tile);
    const Piece p = pieces[index];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin), lane = threadIdx.x & 31;
    if (p.plain) {
      copy_plain(p, begin, n, values, message, lane, 32);
      continue;
    }
    if (framed && begin == 0 && lane == 0)
      put_frame(p, index, wire_id, own_byte(p), message_length(p), message, message + p.place);
    const int block = 1 << p.rice;
    for (int done = 0; done < n; done += block) {
      const i64 at = p.offset + begin + done;
      encode_block(coded + at, residual ? residual + at : (float*)0, n - done < block ? n - done : block,
                   message + block_at(p, begin + done));
    }
  }
}

struct LoadSign {
  const Messages& in;
  i64 at;
  int i;
  __device__ __forceinline__ float operator()(int m) const {
    const u8* from = in.m[m] + at;
    const bool low = get32(from + 8 + i / 32 * 4) >> (i & 31) & 1;
    return __fadd_rn(0.0f, getf(from + (low ? 4 : 0)));
  }
};
struct LoadSigns {
  const Messages& in;
  i64 at;
  int i;
  __device__ __forceinline__ Four operator()(int m) const {
    const u8* from = in.m[m] + at;
    const u32 bits = get32(from + 8 + i / 32 * 4) >> (i & 31);
    const float high = __fadd_rn(0.0f, getf(from)), low = __fadd_rn(0.0f, getf(from + 4));
    return {{bits & 1 ? low : high, bits & 2 ? low : high, bits & 4 ? low : high, bits & 8 ? low : high}};
  }
};
__device__ __forceinline__ void sum_coded(const Piece& p, i64 begin, int n, int, const Messages& in,
                                          float* out) {
  const int within = (1 << p.rice) - 1;
  int done = 0;
  if (((u64)out & 15) == 0) {
    done = n & ~3;
    for (int i = 4 * threadIdx.x; i < done; i += 4 * blockDim.x)
      *(Four*)(out + i) = total(LoadSigns{in, block_at(p, begin + i), i & within});
  }
  for (int i = done + threadIdx.x; i < n; i += blockDim.x)
    out[i] = total(LoadSign{in, block_at(p, begin + i), i & within});
}
