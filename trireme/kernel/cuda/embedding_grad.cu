// Rows added up by their indices; embedding_grad.cc says how.
#pragma once

#include "trireme/kernel/cuda/expressions.cu"

typedef i64 Id;
typedef bf16 T;
typedef float Y;
typedef float A;
typedef Pack<u32, 4> Raw;  // a vector as it comes from memory: taken apart only when it is added
constexpr int V = 8;
constexpr i64 ROWS = 16;
constexpr u32 WIDTH = 8, COUNT = 64, COLUMNS = 8;

#pragma text kSortIdsText
inline bool named(i64 id) { return id >= 0 && id < ROWS; }

extern "C" __global__ void __launch_bounds__(256) count(const Id* ids, u32* counts, u32* slots, u32 n) {
  const u32 j = first_index();
  if (j < n && named(ids[j])) slots[j] = atomicAdd(&counts[ids[j]], 1u);
}

extern "C" __global__ void __launch_bounds__(256)
    place(const Id* ids, const u32* counts, const u32* slots, u32* starts, u32* cursor, u32 n) {
  const u32 j = first_index();
  const int lane = threadIdx.x % 32;
  const bool leads = j < n && named(ids[j]) && slots[j] == 0;
  const u32 size = leads ? counts[ids[j]] : 0;
  u32 sum = size;
  for (int d = 1; d < 32; d *= 2) {
    const u32 before = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += before;
  }
  u32 base = 0;
  if (lane == 31 && sum > 0) base = atomicAdd(cursor, sum);
  base = __shfl_sync(0xffffffffu, base, 31);
  if (leads) starts[ids[j]] = base + sum - size;
}

extern "C" __global__ void __launch_bounds__(256)
    list(const Id* ids, const u32* starts, const u32* slots, u32* listed, u32 n) {
  const u32 j = first_index();
  if (j < n && named(ids[j])) listed[starts[ids[j]] + slots[j]] = j;
}

extern "C" __global__ void __launch_bounds__(256)
    rank(const Id* ids, const u32* counts, const u32* starts, const u32* listed, u32* sorted, u32 n) {
  const u32 j = first_index();
  if (j >= n || !named(ids[j])) return;
  const u32* run = listed + starts[ids[j]];
  const u32 size = counts[ids[j]];
  u32 smaller = 0;
#pragma unroll 8
  for (u32 e = 0; e < size; ++e) smaller += run[e] < j;
  sorted[starts[ids[j]] + smaller] = j;
}

#pragma text kAddRowsText
// updates [OUTER, COUNT, WIDTH vectors], y [OUTER, ROWS, WIDTH vectors]. A column is one vector of one outer
// index.
constexpr u32 CHUNK = 32, TILES = (COLUMNS + 31) / 32;
struct alignas(sizeof(A) * V > 16 ? 16 : sizeof(A) * V) Sums {
  A v[V];
};
inline A plus(A a, A b) { return (A)(wrap(a) + wrap(b)); }
inline void finish(Y* y, const Sums& sums, i64 id, u32 column) {
  Pack<Y, V> out;
#pragma unroll
  for (int k = 0; k < V; ++k) out.v[k] = store_acc<Y>(sums.v[k]);
  ((Pack<Y, V>*)y)[((i64)(column / WIDTH) * ROWS + id) * WIDTH + column % WIDTH] = out;
}
// Sums of chunks: a stretch of CHUNK slots holds the starts of at most two chunks of runs that have several,
// the first chunk of one run and a later one of another.
inline Sums* part(Sums* parts, u32 slot, bool is_first, u32 column) {
  return parts + ((u64)(slot / CHUNK) * 2 + is_first) * COLUMNS + column;
}

// A lane has a column, and one of the chunk's positions for the others; 8 rows are on their way at a time.
extern "C" __global__ void __launch_bounds__(256)
    add(const T* updates, const Id* ids, const u32* counts, const u32* starts, const u32* sorted,
        const u32* cursor, Sums* parts, Y* y) {
  const u32 tile = blockIdx.x % TILES, slot = blockIdx.x / TILES * 8 + threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32, column = tile * 32 + lane;
  if (slot >= *cursor) return;
  const i64 id = ids[sorted[slot]];
  const u32 at = slot - starts[id], size = counts[id];
  if (at % CHUNK != 0) return;
  const u32 most = size - at < CHUNK ? size - at : CHUNK;
  const u32 position = lane < most ? sorted[slot + lane] : 0;
  const u32 near = column < COLUMNS ? column : COLUMNS - 1;
  const Raw* from = (const Raw*)updates + (i64)(near / WIDTH) * COUNT * WIDTH + near % WIDTH;
  Sums sums = {};
  for (u32 e = 0; e < most; e += 8) {
    Raw x[8] = {};
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const u32 row = __shfl_sync(0xffffffffu, position, e + t);
      if (e + t < most) x[t] = from[(i64)row * WIDTH];
    }
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      if (e + t >= most) break;
      const Pack<T, V> v = *(const Pack<T, V>*)&x[t];
#pragma unroll
      for (int k = 0; k < V; ++k) sums.v[k] = plus(sums.v[k], load_acc(v.v[k]));
    }
  }
  if (column >= COLUMNS) return;
  if (size <= CHUNK)
    finish(y, sums, id, column);
  else
    *part(parts, slot, at == 0, column) = sums;
}

// Every run of several chunks has a slot that is a multiple of CHUNK; the first one stands for it.
extern "C" __global__ void __launch_bounds__(256)
    join(const Id* ids, const u32* counts, const u32* starts, const u32* sorted, const u32* cursor,
         Sums* parts, Y* y) {
  const u32 tile = blockIdx.x % TILES, slot = (blockIdx.x / TILES * 8 + threadIdx.x / 32) * CHUNK;
  const u32 column = tile * 32 + threadIdx.x % 32;
  if (slot >= *cursor || column >= COLUMNS) return;
  const i64 id = ids[sorted[slot]];
  const u32 start = starts[id], size = counts[id];
  if (size <= CHUNK || slot - start >= CHUNK) return;
  Sums sums = *part(parts, start, true, column);
  for (u32 at = CHUNK; at < size; at += 4 * CHUNK) {
    Sums more[4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
      if (at + t * CHUNK < size) more[t] = *part(parts, start + at + t * CHUNK, false, column);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if (at + t * CHUNK >= size) break;
#pragma unroll
      for (int k = 0; k < V; ++k) sums.v[k] = plus(sums.v[k], more[t].v[k]);
    }
  }
  finish(y, sums, id, column);
}
