// Random numbers by counters: generators, dropout, permutations, shuffles.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

typedef float Y;
typedef u32 I;
constexpr int kKind = 0;  // uniform, normal, bernoulli
constexpr I RUN = 8;
constexpr u64 STEP = 32, INNER = 4;

#pragma text kStreamText
__device__ __forceinline__ u64 stream_key(const i64* key, const i64* step, i64 stream) {
  const u64 b = *step, c = stream;
  const Philox4 w = philox(*key, (u32)b, (u32)(b >> 32), (u32)c, (u32)(c >> 32));
  return (u64)w.x << 32 | w.y;
}
__device__ __forceinline__ Philox4 sample_block(u64 key, u64 sample, u64 block) {
  return philox(key, (u32)block, (u32)(block >> 32), (u32)sample, (u32)(sample >> 32));
}

#pragma text kGenerateText
// Double operations are rounded one by one, as on the host.
__device__ __forceinline__ double uniform_number(const u32* words, int j, double low, double high) {
  return __dadd_rn(low, __dmul_rn(high - low, (double)to_uniform(words[j])));
}
__device__ __forceinline__ double normal_number(const u32* words, int j, double mean, double std) {
  const double u = (words[j & 2] + 0.5) * 0x1.0p-32,
               angle = 6.283185307179586 * (words[(j & 2) + 1] * 0x1.0p-32);
  const double along = j % 2 == 0 ? cos(angle) : sin(angle);
  return __dadd_rn(mean, __dmul_rn(std, __dmul_rn(sqrt(-2 * log(u)), along)));
}
__device__ __forceinline__ double bernoulli_number(const u32* words, int j, double probability, double) {
  return (double)to_uniform(words[j]) < probability ? 1.0 : 0.0;
}
// Element j of a block of four, in f64.
__device__ __forceinline__ double number(const u32* words, int j, double first, double second) {
  if constexpr (kKind == 0) return uniform_number(words, j, first, second);
  if constexpr (kKind == 1) return normal_number(words, j, first, second);
  if constexpr (kKind == 2) return bernoulli_number(words, j, first, second);
}
// A thread makes the four elements of a block.
extern "C" __global__ void generate(const i64* key, const i64* step, const i64* ids, T* y, i64 samples,
                                    i64 size, i64 stream, double first, double second) {
  const u64 mixed = stream_key(key, step, stream);
  const i64 blocks = (size + 3) / 4;
  for (i64 k = first_index(); k < samples * blocks; k += grid_step()) {
    const i64 s = k / blocks, b = k - s * blocks;
    const Philox4 p = sample_block(mixed, ids[s], b);
    const u32 words[4] = {p.x, p.y, p.z, p.w};
    T* to = y + s * size + 4 * b;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (4 * b + j < size) to[j] = store_acc<T>((A)number(words, j, first, second));
  }
}

#pragma text kDropoutText
// Packs lie within a sample (kPack divides its size) and within a block of words or on several whole ones.
// place(j) is the place of element j of a sample among those that have words; it keeps packs together.
template <class Place>
__device__ __forceinline__ void drop(const T* x, u64 mixed, const i64* ids, Y* y, i64 samples, i64 size,
                                     double rate, Place place) {
  const float threshold = (float)rate;
  const A keep = (A)(1 - rate);
  const bool aligned = is_aligned(x) && is_aligned(y);
  const i64 packs = samples * size / kPack;
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const i64 i = k * kPack;
    const I s = (I)i / (I)size, j = (I)i - s * (I)size;
    const u64 id = ids[s], at = place(j);
    const Packed p = load_pack(x + i, aligned);
    Pack<Y, kPack> out;
    constexpr int kGroup = kPack < 4 ? kPack : 4;
#pragma unroll
    for (int g = 0; g < kPack; g += kGroup) {
      const Philox4 w = sample_block(mixed, id, (at + g) / 4);
      const u32 words[4] = {w.x, w.y, w.z, w.w};
      const int from = (int)(at % 4);  // 0 where kPack is a multiple of 4
#pragma unroll
      for (int v = 0; v < kGroup; ++v) {
        u32 word = words[v];
        if (kPack < 4) {
          const int n = from + v;
          word = n == 0 ? words[0] : n == 1 ? words[1] : n == 2 ? words[2] : words[3];
        }
        const A value = load_acc(p.v[g + v]);
        out.v[g + v] = store_acc<Y>(to_uniform(word) >= threshold ? value / keep : (A)0);
      }
    }
    store_pack(y + i, out, aligned);
  }
}

#pragma text kDropoutWholeText
struct Same {
  __device__ __forceinline__ u64 operator()(I j) const { return j; }
};
extern "C" __global__ void dropout(const T* x, const i64* key, const i64* step, const i64* ids, Y* y,
                                   i64 samples, i64 size, i64 stream, double rate) {
  drop(x, stream_key(key, step, stream), ids, y, samples, size, rate, Same{});
}

#pragma text kDropoutPartText
// Runs of RUN elements, which lie STEP places apart; the first one begins *begin * INNER places behind the
// first of the sample. kPack divides all three.
struct InRuns {
  u64 first;
  __device__ __forceinline__ u64 operator()(I j) const { return first + (u64)(j / RUN) * STEP + j % RUN; }
};
extern "C" __global__ void dropout_part(const T* x, const i64* key, const i64* step, const i64* ids,
                                        const i64* begin, Y* y, i64 samples, i64 size, i64 stream,
                                        double rate) {
  drop(x, stream_key(key, step, stream), ids, y, samples, size, rate, InRuns{(u64)*begin * INNER});
}

#pragma text kPermuteText
// The inside-out shuffle of op/random without its chain of steps. Entry i goes to place[i] <= i and what was
// there to i. So a place that some entry was put to holds the last of these; any other place p holds what
// place[p] held just before p: the last entry below p that was put there, or, if there is none, what that
// place got when it came to be, and so on downwards. A place gets some ln(n / p) entries: their lists are
// short. The order of a list depends on timing, the largest entry below a bound does not.
extern "C" __global__ void clear_lists(i64* head, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) head[i] = -1;
}
extern "C" __global__ void make_lists(const i64* key, const i64* step, i64* head, i64* next, i64* place,
                                      i64 n, i64 stream) {
  const u64 mixed = stream_key(key, step, stream);
  for (i64 i = first_index(); i < n; i += grid_step()) {
    const Philox4 w = sample_block(mixed, 0, i);
    const i64 j = __umul64hi(w.x | (u64)w.y << 32, i + 1);
    place[i] = j;
    next[i] = atomicExch(reinterpret_cast<u64*>(head + j), (u64)i);
  }
}
__device__ __forceinline__ i64 last_below(i64 bound, i64 i, const i64* next) {
  i64 last = -1;
  for (; i >= 0; i = next[i])
    if (i < bound && i > last) last = i;
  return last;
}
extern "C" __global__ void resolve(const i64* head, const i64* next, const i64* place, i64* order, i64 n) {
  for (i64 k = first_index(); k < n; k += grid_step()) {
    i64 found = last_below(n, head[k], next);
    for (i64 p = k; found < 0; p = place[p]) found = last_below(p, head[place[p]], next);
    order[k] = found;
  }
}

#pragma text kShuffleText
extern "C" __global__ void move_rows(const T* x, T* y, const i64* order, i64 rows, i64 size, i64 inverse) {
  const i64 packs = size / kPack;
  const bool aligned = is_aligned(x) && is_aligned(y);
  for (i64 k = first_index(); k < rows * packs; k += grid_step()) {
    const i64 r = k / packs, at = (k - r * packs) * kPack;
    const i64 other = order[r], from = inverse ? r : other, to = inverse ? other : r;
    store_pack(y + to * size + at, load_pack(x + from * size + at, aligned), aligned);
  }
}
