// Messages of the largest values and their positions.
#pragma once

#include "trireme/kernel/cuda/codec/codec_plain.cu"

#pragma text kCodecTopKText
// Encoding. The limit is found by digits of the magnitudes' bits, 11, 10 and 10 of them, each from counts of
// all values that begin as the limit does. Then chunks count their values above the limit and at it, so that
// each knows where its own go, in order of position; of equal ones the first are taken. Positions become bits
// by a sum over the lengths of their codes.
//
// Decoding. Where a code begins is known only from the one before. The bits are cut into 64 stretches, and
// each is decoded from 16 places at once, at one of which the first code that begins in it begins mostly:
// codes are about as long as the parameter, and where all are, a wrong beginning never meets the right one.
// Then one thread goes from stretch to stretch by what the right one of each has come to.
constexpr int CHUNK = 16384;
struct Pick {
  u32 prefix, left;
};

__device__ __forceinline__ int piece_of_chunk(const Piece* p, int num, i64 chunk) {
  int low = 0, high = num - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p[middle].chunk <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}
__device__ __forceinline__ u32 magnitude(float v) { return __float_as_uint(v) & 0x7fffffffu; }
// Sum over the threads before; blockDim.x is a multiple of 32. All threads call it.
template <class T>
__device__ __forceinline__ T scan_before(T v, T& all) {
  __shared__ T parts[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
  T sum = v;
#pragma unroll
  for (int k = 1; k < 32; k *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, sum, k);
    if (lane >= k) sum += other;
  }
  __syncthreads();  // the call before may still read parts
  if (lane == 31) parts[warp] = sum;
  __syncthreads();
  T before = 0;
  all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) before = all;
    all += parts[w];
  }
  return before + sum - v;
}

// Level 0 adds values to the residual first.
extern "C" __global__ void count_digits(const Piece* pieces, int num, i64 chunks, int level,
                                        const float* values, float* residual, const Pick* picks,
                                        u32* counts) {
  __shared__ u32 here[2048];
  for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int index = piece_of_chunk(pieces, num, chunk);
    const Piece p = pieces[index];
    const i64 begin = (chunk - p.chunk) * CHUNK, end = min(begin + (i64)CHUNK, p.count);
    const u32 prefix = level ? picks[index].prefix : 0;
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) here[i] = 0;
    __syncthreads();
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + end; i += blockDim.x) {
      float a = level && residual ? residual[i] : values[i];
      if (!level && residual) residual[i] = a = __fadd_rn(residual[i], a);
      const u32 m = magnitude(a);
      if (level == 0)
        atomicAdd(here + (m >> 20), 1u);
      else if (level == 1 && m >> 20 == prefix)
        atomicAdd(here + (m >> 10 & 1023u), 1u);
      else if (level == 2 && m >> 10 == prefix)
        atomicAdd(here + (m & 1023u), 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2048; i += blockDim.x)
      if (here[i]) atomicAdd(counts + 2048 * (i64)index + i, here[i]);
    __syncthreads();
  }
}
// The digit of the limit, from the largest down; counts are zeros again. A block per piece.
extern "C" __global__ void pick_digit(const Piece* pieces, int level, Pick* picks, u32* counts) {
  const int digits = level ? 1024 : 2048, each = digits / blockDim.x;
  u32* own = counts + 2048 * (i64)blockIdx.x;
  const u32 left = level ? picks[blockIdx.x].left : (u32)pieces[blockIdx.x].kept;
  const u32 prefix = level ? picks[blockIdx.x].prefix : 0;
  const int top = digits - 1 - (int)threadIdx.x * each;
  u32 sum = 0, all;
  for (int k = 0; k < each; ++k) sum += own[top - k];
  u32 before = scan_before(sum, all);
  const bool here = before < left && left <= before + sum;
  __syncthreads();  // picks are read
  for (int k = 0; here && k < each; ++k) {
    const u32 n = own[top - k];
    if (before < left && left <= before + n) {
      picks[blockIdx.x].prefix = prefix << (level ? 10 : 0) | (u32)(top - k);
      picks[blockIdx.x].left = left - before;
    }
    before += n;
  }
  for (int k = 0; k < each; ++k) own[top - k] = 0;
}
// Per chunk, how many are above the limit and how many are at it.
extern "C" __global__ void count_chosen(const Piece* pieces, int num, i64 chunks, const float* from,
                                        const Pick* picks, u32* counts) {
  for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int index = piece_of_chunk(pieces, num, chunk);
    const Piece p = pieces[index];
    const i64 begin = (chunk - p.chunk) * CHUNK, end = min(begin + (i64)CHUNK, p.count);
    const u32 limit = picks[index].prefix;
    u32 above = 0, at = 0;
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + end; i += blockDim.x) {
      const u32 m = magnitude(from[i]);
      above += m > limit;
      at += m == limit;
    }
    above = block_sum(above);
    at = block_sum(at);
    if (threadIdx.x == 0) {
      counts[2 * chunk] = above;
      counts[2 * chunk + 1] = at;
    }
  }
}
// Counts of a piece's chunks become sums over the chunks before. A block per piece.
extern "C" __global__ void place_chunks(const Piece* pieces, u32* counts) {
  const Piece p = pieces[blockIdx.x];
  const i64 end = p.chunk + (p.count + CHUNK - 1) / CHUNK;
  u32 above_before = 0, at_before = 0;
  for (i64 first = p.chunk; first < end; first += blockDim.x) {
    const i64 chunk = first + threadIdx.x;
    const u32 above = chunk < end ? counts[2 * chunk] : 0, at = chunk < end ? counts[2 * chunk + 1] : 0;
    u32 all_above, all_at;
    const u32 own_above = scan_before(above, all_above), own_at = scan_before(at, all_at);
    if (chunk < end) {
      counts[2 * chunk] = above_before + own_above;
      counts[2 * chunk + 1] = at_before + own_at;
    }
    above_before += all_above;
    at_before += all_at;
  }
}
extern "C" __global__ void write_chosen(const Piece* pieces, int num, i64 chunks, const float* from,
                                        float* residual, const Pick* picks, const u32* counts, u32* positions,
                                        float* chosen) {
  for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int index = piece_of_chunk(pieces, num, chunk);
    const Piece p = pieces[index];
    const i64 begin = (chunk - p.chunk) * CHUNK, end = min(begin + (i64)CHUNK, p.count);
    const Pick pick = picks[index];
    u32 above = counts[2 * chunk], at = counts[2 * chunk + 1];
    for (i64 row = begin; row < end; row += blockDim.x) {
      const i64 i = row + threadIdx.x;
      const float v = i < end ? from[p.offset + i] : 0.0f;
      const u32 m = magnitude(v);
      const bool is_above = i < end && m > pick.prefix, is_at = i < end && m == pick.prefix;
      if (!__syncthreads_or(is_above || is_at)) continue;
      u32 all;
      const u32 own = scan_before((u32)is_above | (u32)is_at << 16, all);
      const u32 equal = at + (own >> 16);
      if (is_above || (is_at && equal < pick.left)) {
        const i64 to = p.first + above + (own & 0xffffu) + min(equal, pick.left);
        positions[to] = (u32)i;
        chosen[to] = v;
        if (residual) residual[p.offset + i] = 0.0f;
      }
      above += all & 0xffffu;
      at += all >> 16;
    }
  }
}

__device__ __forceinline__ void or_bits(u32* words, i64 bit, u32 value) {
  const int shift = (int)(bit & 31);
  atomicOr(words + (bit >> 5), value << shift);
  if (shift && value >> (32 - shift)) atomicOr(words + (bit >> 5) + 1, value >> (32 - shift));
}
// A block per piece.
extern "C" __global__ void write_positions(const Piece* pieces, const u32* positions, u32* bits,
                                           u32* lengths) {
  const Piece p = pieces[blockIdx.x];
  u32* words = bits + p.bits;
  for (i64 i = threadIdx.x; i < p.words; i += blockDim.x) words[i] = 0;
  __syncthreads();
  const u32* own = positions + p.first;
  i64 bit = 0;
  for (i64 row = 0; row < p.kept; row += blockDim.x) {
    const i64 i = row + threadIdx.x;
    u32 gap = 0;
    if (i < p.kept) gap = i ? own[i] - own[i - 1] - 1 : own[i];
    u32 ones = gap >> p.rice, all;
    const u32 length = i < p.kept ? ones + 1 + (u32)p.rice : 0;
    i64 at = bit + scan_before(length, all);
    if (i < p.kept) {
      for (; ones >= 32; ones -= 32, at += 32) or_bits(words, at, 0xffffffffu);
      if (ones) or_bits(words, at, (1u << ones) - 1);
      or_bits(words, at + ones + 1, gap & (u32)((1ull << p.rice) - 1));
    }
    bit += all;
  }
  if (threadIdx.x == 0) lengths[blockIdx.x] = (u32)(12 + 4 * p.kept + (bit + 7) / 8);
}
__device__ __forceinline__ i64 sum_of_lengths(const u8* lengths, int num) {
  i64 sum = 0;
  for (int i = threadIdx.x; i < num; i += blockDim.x) sum += get32(lengths + 4 * i);
  return block_sum(sum);
}
// Encodings one after the other. A block per piece.
extern "C" __global__ void pack_chosen(const Piece* pieces, u32 wire_id, i64 front, const float* chosen,
                                       const u32* bits, const u32* lengths, u8* message) {
  const int index = blockIdx.x;
  const Piece p = pieces[index];
  u8* at = message + front + sum_of_lengths((const u8*)lengths, index);
  const u32 length = lengths[index];
  if (threadIdx.x == 0) {
    put_frame(p, index, wire_id, (u32)p.rice, length, message, at);
    put32(at + 8, (u32)p.kept);
  }
  at += 12;
  for (i64 i = threadIdx.x; i < p.kept; i += blockDim.x) putf(at + 4 * i, chosen[p.first + i]);
  at += 4 * p.kept;
  const i64 end = (i64)length - 12 - 4 * p.kept;
  const u32* words = bits + p.bits;
  for (i64 i = threadIdx.x; 4 * i < end; i += blockDim.x) {
    if (4 * i + 4 <= end)
      put32(at + 4 * i, words[i]);
    else
      for (i64 k = 4 * i; k < end; ++k) at[k] = (u8)(words[i] >> 8 * (k & 3));
  }
}

// Bits of a message by their number, from those of its first word on; 32 at a time.
__device__ __forceinline__ u32 bits_at(const u32* words, i64 at) {
  const u64 pair = (u64)words[(at >> 5) + 1] << 32 | words[at >> 5];
  return (u32)(pair >> (at & 31));
}
// One code; false where it goes beyond the end.
__device__ __forceinline__ bool next_code(const u32* words, i64 end, int rice, i64& at, i64& gap) {
  i64 ones = 0;
  u32 here = 0;
  int run = 32;
  while (at < end && run == 32) {
    here = bits_at(words, at);
    run = ~here ? __ffs((int)~here) - 1 : 32;
    ones += run;
    at += run;
  }
  at += 1 + rice;
  if (at > end) return false;
  ones = min(ones, (i64)1 << 30);  // no encoder writes so many; a shift stays in range
  const u32 low = run + 1 + rice <= 32 ? (run == 31 ? 0 : here >> (run + 1)) : bits_at(words, at - rice);
  gap = ones << rice | (i64)(low & (u32)((1ull << rice) - 1));
  return true;
}
constexpr int OFFSETS = 16, STRETCHES = 64;
struct Decoded {
  i64 end, num, covered;
};
__device__ __forceinline__ Decoded decode_until(const u32* words, i64 end, int rice, i64 at, i64 limit) {
  Decoded d = {at, 0, 0};
  for (i64 gap = 0; d.end < limit && next_code(words, end, rice, d.end, gap); ++d.num) d.covered += gap + 1;
  d.end = min(d.end, end);
  return d;
}
// out += the message's coded pieces. A block of OFFSETS x STRETCHES threads per piece.
extern "C" __global__ void add_message(const Piece* pieces, u32 wire_id, i64 front, i64 most,
                                       const u8* message, u32* positions, float* out, u32* wrong) {
  const int index = blockIdx.x, t = threadIdx.x;
  const Piece p = pieces[index];
  const i64 begin = front + sum_of_lengths(message, index), length = get32(message + 4 * index);
  bool right = length >= 12 + 4 * p.kept && begin + length <= most;
  const u8* at = message + (right ? begin : 0);
  const u32 head = get32(at);
  const int rice = (int)(head >> 8 & 0xffu);
  right = right && head == (wire_id | (u32)rice << 8) && get32(at + 4) == (u32)p.count &&
          get32(at + 8) == (u32)p.kept && rice <= 32;
  if (!right) {
    if (t == 0) *wrong = 1;
    return;
  }
  const u8 *values = at + 12, *bits = values + 4 * p.kept;
  const u32* words = (const u32*)((u64)bits & ~(u64)3);
  const i64 first = 8 * (i64)((u64)bits & 3), end = first + 8 * (length - 12 - 4 * p.kept);
  const i64 stretch = max((end - first + STRETCHES - 1) / STRETCHES, (i64)64);
  __shared__ Decoded tried[OFFSETS * STRETCHES];
  __shared__ i64 starts[STRETCHES], ranks[STRETCHES], nexts[STRETCHES];
  __shared__ int broken;
  const int own = t / OFFSETS;
  const i64 from = first + own * stretch, limit = min(from + stretch, end);
  tried[t] = decode_until(words, end, rice, min(from + t % OFFSETS, end), limit);
  __syncthreads();
  if (t == 0) {
    i64 here = first, rank = 0, next = 0;
    for (int s = 0; s < STRETCHES; ++s) {
      const i64 begins = first + s * stretch, ends = min(begins + stretch, end);
      starts[s] = here;
      ranks[s] = rank;
      nexts[s] = next;
      if (here >= ends) continue;
      const Decoded d = here - begins < OFFSETS ? tried[s * OFFSETS + (here - begins)]
                                                : decode_until(words, end, rice, here, ends);
      here = d.end;
      rank += d.num;
      next += d.covered;
    }
    broken = rank < p.kept;
  }
  __syncthreads();
  if (t % OFFSETS == 0) {
    i64 here = starts[own], rank = ranks[own], next = nexts[own], gap = 0;
    for (; here < limit && rank < p.kept; ++rank, ++next) {
      if (!next_code(words, end, rice, here, gap) || (u64)(next += gap) >= (u64)p.count) {
        broken = 1;
        break;
      }
      positions[p.first + rank] = (u32)next;
      const i64 rest = end - here;
      if (rank + 1 == p.kept && (rest >= 8 || (rest > 0 && bits_at(words, here) & ((1u << rest) - 1))))
        broken = 1;
    }
  }
  __syncthreads();
  if (broken) {
    if (t == 0) *wrong = 1;
    return;
  }
  float* to = out + p.offset;
  for (i64 i = t; i < p.kept; i += blockDim.x) {
    const u32 place = positions[p.first + i];
    to[place] = __fadd_rn(to[place], getf(values + 4 * i));
  }
}

extern "C" __global__ void clear_coded(const Piece* pieces, int num, i64 tiles, float* out) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[p.offset + begin + i] = 0.0f;
  }
}
extern "C" __global__ void add_coded(const Piece* pieces, int num, i64 tiles, float* out,
                                     const float* right) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = p.offset + (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin - p.offset);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      out[begin + i] = __fadd_rn(out[begin + i], right[begin + i]);
  }
}
