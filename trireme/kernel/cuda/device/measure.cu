// Operands of kernels that are timed.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

#pragma text kNoiseText
// Numbers of both signs around 1 in every floating dtype: zeros would be multiplied at less power.
extern "C" __global__ void noise(u32* to, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) {
    u32 h = (u32)i * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    to[i] = (h & 0x807f807fu) | 0x3f003f00u;
  }
}
