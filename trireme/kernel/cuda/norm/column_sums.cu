// Sums of the columns of a matrix (column_sums.h).
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float A;
typedef float Y;
inline Y finish(A v) { return v; }
constexpr int V = 4;
constexpr u32 ROWS = 64, CHANNELS = 32, PARTS = 2, LANES = 8;

#pragma text kColumnSumsText
constexpr u32 EACH = (ROWS + PARTS - 1) / PARTS, DOWN = 256 / LANES;
inline u32 channel() { return (blockIdx.x * LANES + threadIdx.x % LANES) * V; }
// Backwards: what was written last is still in the cache.
inline u32 part() { return PARTS - 1 - blockIdx.y; }
inline u32 first_row() { return part() * EACH + threadIdx.x / LANES; }
inline u32 end_row() { return (part() + 1) * EACH < ROWS ? (part() + 1) * EACH : ROWS; }

// What the threads of a block have added up, V columns each.
inline void put_columns(const A* sums, A* parts, Y* y) {
  __shared__ A rows[DOWN][LANES * V];
  const u32 lane = threadIdx.x % LANES, down = threadIdx.x / LANES;
#pragma unroll
  for (int k = 0; k < V; ++k) rows[down][k * LANES + lane] = sums[k];
  __syncthreads();
  for (u32 i = threadIdx.x; i < LANES * V; i += 256) {
    A total = 0;
#pragma unroll 8
    for (u32 d = 0; d < DOWN; ++d) total += rows[d][i];
    const u32 c = (blockIdx.x * LANES + i % LANES) * V + i / LANES;
    if (c >= CHANNELS) continue;
    if (PARTS == 1)
      y[c] = finish(total);
    else
      parts[(u64)part() * CHANNELS + c] = total;
  }
}

// 32 channels per block, the parts in eight turns.
extern "C" __global__ void __launch_bounds__(256) join(const A* parts, Y* y) {
  __shared__ A turns[8][32];
  const u32 lane = threadIdx.x % 32, turn = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
  A total = 0;
  if (c < CHANNELS) {
#pragma unroll 8
    for (u32 p = turn; p < PARTS; p += 8) total += parts[(u64)p * CHANNELS + c];
  }
  turns[turn][lane] = total;
  __syncthreads();
  if (turn != 0 || c >= CHANNELS) return;
#pragma unroll
  for (int t = 1; t < 8; ++t) total += turns[t][lane];
  y[c] = finish(total);
}
