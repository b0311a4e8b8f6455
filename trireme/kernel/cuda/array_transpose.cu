// Transpositions through shared memory, for elements of any size and for pairs of 16-bit ones.
// Rows of a tile lie along y's last dimension (ROWS elements, XROW apart in x), columns along x's last (COLS
// elements, YCOL apart in y); every other index is part of the batch.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef u32 Word;
typedef u32 Out;
constexpr u32 ROWS = 64, COLS = 128;
constexpr i64 XROW = 128, YCOL = 64;
// Where a part of the batch begins, and what becomes of an element.
inline i64 from(u32 i) { return i; }
inline i64 to(u32 i) { return i; }
inline Out moved(Word v) { return v; }

#pragma text kTilesText
constexpr int SIDE = 64;
constexpr u32 ACROSS = (COLS + SIDE - 1) / SIDE, DOWN = (ROWS + SIDE - 1) / SIDE;

#pragma text kTurnText
extern "C" __global__ void __launch_bounds__(256) turn(const Word* x, Out* y) {
  __shared__ Word tile[SIDE][SIDE + 1];
  const u32 block = blockIdx.x, batch = block / (ACROSS * DOWN);
  const u32 col = block % ACROSS * SIDE, row = block / ACROSS % DOWN * SIDE;
  const int lane = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
  x += from(batch);
  y += to(batch);
#pragma unroll
  for (int k = 0; k < SIDE; k += 256 / SIDE)
    if (col + lane < COLS && row + first + k < ROWS)
      tile[first + k][lane] = x[(i64)(row + first + k) * XROW + col + lane];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SIDE; k += 256 / SIDE)
    if (row + lane < ROWS && col + first + k < COLS)
      y[(i64)(col + first + k) * YCOL + row + lane] = moved(tile[lane][first + k]);
}

#pragma text kTurnPairsText
// The same for 16-bit elements where everything comes in pairs: 32 lanes move 64 elements of a row at once.
extern "C" __global__ void __launch_bounds__(256) turn_pairs(const u16* x, u16* y) {
  __shared__ u32 tile[SIDE][SIDE / 2 + 1];
  const u32 block = blockIdx.x, batch = block / (ACROSS * DOWN);
  const u32 col = block % ACROSS * SIDE, row = block / ACROSS % DOWN * SIDE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += from(batch);
  y += to(batch);
#pragma unroll
  for (int r = warp; r < SIDE; r += 8)
    if (row + r < ROWS && col + 2 * lane < COLS)
      tile[r][lane] = *(const u32*)(x + (i64)(row + r) * XROW + col + 2 * lane);
  __syncthreads();
#pragma unroll
  for (int c = warp; c < SIDE / 2; c += 8) {
    if (row + 2 * lane >= ROWS || col + 2 * c >= COLS) continue;
    const u32 above = tile[2 * lane][c], below = tile[2 * lane + 1][c];
    u16* at = y + (i64)(col + 2 * c) * YCOL + row + 2 * lane;
    *(u32*)at = (above & 0xffffu) | below << 16;
    *(u32*)(at + YCOL) = above >> 16 | (below & 0xffff0000u);
  }
}
