#include "trireme/kernel/cuda/codec/codec_text.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {
namespace {

// Numbers in messages lie at any byte.
constexpr std::string_view kCommon = R"cuda(
struct Piece { i64 offset, count, place, plain, tile, chunk, kept, rice, first, bits, words; };
#define TILE 2048

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
    if (p[middle].tile <= tile) low = middle; else high = middle - 1;
  }
  return low;
}
__device__ __forceinline__ int tile_elems(const Piece& p, i64 begin) {
  return (int)(p.count - begin < TILE ? p.count - begin : TILE);
}

__device__ __forceinline__ void put_frame(const Piece& p, int index, u32 wire_id, u32 own, u32 length, u8* message, u8* at) {
  put32(message + 4 * index, length);
  put32(at, wire_id | own << 8);
  put32(at + 4, (u32)p.count);
}
__device__ __forceinline__ bool has_frame(const Piece& p, int index, u32 wire_id, u32 own, u32 length, const u8* message) {
  const u8* at = message + p.place;
  return get32(message + 4 * index) == length && get32(at) == (wire_id | own << 8) && get32(at + 4) == (u32)p.count;
}
__device__ __forceinline__ void copy_plain(const Piece& p, i64 begin, int n, const float* values, u8* message, int t, int step) {
  for (int i = t; i < n; i += step) putf(message + p.place + 4 * (begin + i), values[p.offset + begin + i]);
}

// Of coded pieces: velocity = momentum velocity + values.
extern "C" __global__ void update_velocity(const Piece* pieces, int num, i64 tiles, float momentum, const float* values, float* velocity) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE, n = tile_elems(p, begin);
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + begin + n; i += blockDim.x)
      velocity[i] = __fadd_rn(__fmul_rn(momentum, velocity[i]), values[i]);
  }
}
// What was sent whole starts with no momentum.
extern "C" __global__ void mask_velocity(const Piece* pieces, int num, i64 tiles, const float* residual, float* velocity) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE, n = tile_elems(p, begin);
    for (i64 i = p.offset + begin + threadIdx.x; i < p.offset + begin + n; i += blockDim.x)
      if (residual[i] == 0.0f) velocity[i] = 0.0f;
  }
}
)cuda";

// Rounding is that of codec/loops.inc: to the nearest, ties to even.
constexpr std::string_view kF16 = R"cuda(
#define LARGEST 65504.0f
__device__ __forceinline__ u32 to_half(float v) { return from_f<half>(v).bits; }
__device__ __forceinline__ float of_half(u32 bits) {
  half h;
  h.bits = (u16)bits;
  return to_f(h);
}
)cuda";
constexpr std::string_view kBf16 = R"cuda(
#define LARGEST 3.38953138925153547590470800371487866880e+38f
__device__ __forceinline__ u32 to_half(float v) {
  const u32 bits = __float_as_uint(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ __forceinline__ float of_half(u32 bits) { return __uint_as_float(bits << 16); }
)cuda";

// Four values at a time where they begin at a multiple of 16 bytes, and their halves at one of 4; else one by
// one.
constexpr std::string_view kHalves = R"cuda(
__device__ __forceinline__ u32 message_length(const Piece& p) { return 8u + 2u * (u32)p.count; }
__device__ __forceinline__ u32 own_byte(const Piece&) { return 0; }

__device__ __forceinline__ u32 encode_half(float value, float* r) {
  const float a = r ? __fadd_rn(value, *r) : value;
  const u32 h = to_half(a > LARGEST ? LARGEST : a < -LARGEST ? -LARGEST : a);
  if (r) *r = __fsub_rn(a, __fadd_rn(0.0f, of_half(h)));
  return h;
}
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int framed, u32 wire_id, const float* values, const float* coded, float* residual, u8* message) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int index = piece_of_tile(pieces, num, tile);
    const Piece p = pieces[index];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin), t = threadIdx.x;
    if (p.plain) {
      copy_plain(p, begin, n, values, message, t, blockDim.x);
      continue;
    }
    if (framed && begin == 0 && t == 0) put_frame(p, index, wire_id, 0, message_length(p), message, message + p.place);
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
  __device__ __forceinline__ float operator()(int m) const { return __fadd_rn(0.0f, of_half(*(const u16*)(in.m[m] + at))); }
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
__device__ __forceinline__ void sum_coded(const Piece& p, i64 begin, int n, int framed, const Messages& in, float* out) {
  const i64 at = p.place + (framed ? 8 : 0) + 2 * begin;
  int done = 0;
  if ((at & 3) == 0 && ((u64)out & 15) == 0) {
    done = n & ~3;
    for (int i = 4 * threadIdx.x; i < done; i += 4 * blockDim.x) *(Four*)(out + i) = total(LoadHalves{in, at + 2 * i});
  }
  for (int i = done + threadIdx.x; i < n; i += blockDim.x) out[i] = total(LoadHalf{in, at + 2 * i});
}
)cuda";

// A warp has a tile, block by block (2^rice values), and its values in registers. Sums are those of
// codec/loops.inc: 16 lanes per sign, which the 32 threads are, then a tree, then what is left over one by
// one.
constexpr std::string_view kOneBit = R"cuda(
#define ALL 0xffffffffu
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
    if (is_negative(a)) low = __fadd_rn(low, a); else high = __fadd_rn(high, a);
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
    if (byte + 4 <= end) put32(to + 8 + byte, word);
    else for (int k = 0; byte + k < end; ++k) to[8 + byte + k] = (u8)(word >> 8 * k);
  }
  if (!r) return;
#pragma unroll
  for (int k = 0; k < TILE / 32; ++k) {
    const int i = 32 * k + lane;
    if (i < n) r[i] = __fsub_rn(v[k], is_negative(v[k]) ? low : high);
  }
}
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int framed, u32 wire_id, const float* values, const float* coded, float* residual, u8* message) {
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
    if (framed && begin == 0 && lane == 0) put_frame(p, index, wire_id, own_byte(p), message_length(p), message, message + p.place);
    const int block = 1 << p.rice;
    for (int done = 0; done < n; done += block) {
      const i64 at = p.offset + begin + done;
      encode_block(coded + at, residual ? residual + at : (float*)0, n - done < block ? n - done : block, message + block_at(p, begin + done));
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
__device__ __forceinline__ void sum_coded(const Piece& p, i64 begin, int n, int, const Messages& in, float* out) {
  const int within = (1 << p.rice) - 1;
  int done = 0;
  if (((u64)out & 15) == 0) {
    done = n & ~3;
    for (int i = 4 * threadIdx.x; i < done; i += 4 * blockDim.x)
      *(Four*)(out + i) = total(LoadSigns{in, block_at(p, begin + i), i & within});
  }
  for (int i = done + threadIdx.x; i < n; i += blockDim.x) out[i] = total(LoadSign{in, block_at(p, begin + i), i & within});
}
)cuda";

// Top-k has kernels of its own; plain pieces are copied.
constexpr std::string_view kPlainOnly = R"cuda(
__device__ __forceinline__ u32 message_length(const Piece&) { return 0; }
__device__ __forceinline__ u32 own_byte(const Piece&) { return 0; }
extern "C" __global__ void encode_message(const Piece* pieces, int num, i64 tiles, int, u32, const float* values, const float*, float*, u8* message) {
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Piece p = pieces[piece_of_tile(pieces, num, tile)];
    const i64 begin = (tile - p.tile) * TILE;
    if (p.plain) copy_plain(p, begin, tile_elems(p, begin), values, message, threadIdx.x, blockDim.x);
  }
}
__device__ __forceinline__ void sum_coded(const Piece&, i64, int, int, const Messages&, float*) {}
)cuda";

constexpr std::string_view kSum = R"cuda(
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
extern "C" __global__ void sum_messages(const Piece* pieces, int num, i64 first, i64 tiles, int framed, u32 wire_id, Messages in, float* out, u32* wrong) {
  for (i64 tile = first + blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int index = piece_of_tile(pieces, num, tile);
    const Piece p = pieces[index];
    const i64 begin = (tile - p.tile) * TILE;
    const int n = tile_elems(p, begin);
    float* to = out + p.offset + begin;
    if (p.plain) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = total(LoadPlain{in, p.place + 4 * (begin + i), framed});
      continue;
    }
    if (framed && begin == 0)
      for (int m = threadIdx.x; m < MESSAGES; m += blockDim.x)
        if (!has_frame(p, index, wire_id, own_byte(p), message_length(p), in.m[m])) *wrong = 1;
    sum_coded(p, begin, n, framed, in, to);
  }
}
)cuda";

// Every value is named, so the order is the one that was asked for.
std::string total_text(int num_messages, std::span<const Addition> additions) {
  std::string text = fmt::format(
      "#define MESSAGES {}\nstruct Messages {{ const u8* m[MESSAGES]; }};\n"
      "template <class L> __device__ __forceinline__ auto total(const L& load) {{\n",
      num_messages);
  const auto name = [&](int operand) {
    return operand < num_messages ? fmt::format("load({})", operand)
                                  : fmt::format("t{}", operand - num_messages);
  };
  for (std::size_t k = 0; k < additions.size(); ++k)
    text += fmt::format("  const auto t{} = add({}, {});\n", k, name(additions[k].left),
                        name(additions[k].right));
  const int last = additions.empty() ? 0 : num_messages + static_cast<int>(additions.size()) - 1;
  return text + fmt::format("  return {};\n}}\n", name(last));
}

}  // namespace

std::string message_text(Encoding encoding, int num_messages, std::span<const Addition> additions) {
  std::string text(kCommon);
  text += total_text(num_messages, additions);
  switch (encoding) {
    case Encoding::kF16:
      text.append(kF16).append(kHalves);
      break;
    case Encoding::kBf16:
      text.append(kBf16).append(kHalves);
      break;
    case Encoding::kOneBit:
      text.append(kOneBit);
      break;
    case Encoding::kTopK:
      text.append(kPlainOnly).append(top_k_text());
      break;
  }
  return text.append(kSum);
}

}  // namespace trireme::kernel::cuda
