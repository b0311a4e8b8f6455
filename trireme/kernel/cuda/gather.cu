// Rows by their indices: y[o, j, :] = x[o, ids[j], :]; out of range gives zeros. Rows of the part that a
// position has.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

// A vector of each side, an element of the result, an index.
typedef Pack<bf16, 4> From;
typedef Pack<float, 4> To;
typedef float Element;
typedef i64 Id;
typedef u32 index;
constexpr bool kCasts = true;
// Rows have WIDTH vectors; sizes are constants, so divisions are multiplications.
constexpr index WIDTH = 8, COUNT = 4;
constexpr i64 ROWS = 16;
constexpr i64 PARTS = 2;
__device__ const i64 starts[] = {0, 8, 16};

#pragma text kGatherText
template <class Y, class X>
inline Y moved(const X& v) {
  if constexpr (kCasts) {
    Y y;
#pragma unroll
    for (int k = 0; k < int(sizeof(Y) / sizeof(Element)); ++k) y.v[k] = from_f<Element>(to_f(v.v[k]));
    return y;
  } else {
    return v;
  }
}
extern "C" __global__ void __launch_bounds__(256) gather(const From* x, const Id* ids, To* y, index n) {
  const index i = first_index();
  if (i < n) {
    const index row = i / WIDTH, at = i % WIDTH;
    const i64 id = ids[row % COUNT];
    From v = {};
    if (id >= 0 && id < ROWS) v = x[((i64)(row / COUNT) * ROWS + id) * WIDTH + at];
    y[i] = moved<To>(v);
  }
}

#pragma text kTakePartText
// starts[p]: the first row of position p; a position that has fewer than COUNT rows gets zeros behind them.
extern "C" __global__ void __launch_bounds__(256)
    take_part(const From* x, const i64* position, From* y, index n) {
  const index i = first_index();
  if (i < n) {
    const index row = i / WIDTH, at = i % WIDTH;
    const i64 p = *position, k = row % COUNT;
    From v = {};
    if (p >= 0 && p < PARTS && k < starts[p + 1] - starts[p])
      v = x[((i64)(row / COUNT) * ROWS + starts[p] + k) * WIDTH + at];
    y[i] = v;
  }
}
