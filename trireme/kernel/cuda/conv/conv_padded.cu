// Images of few channels padded to more, and back.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

constexpr int kChannels = 3, kWide = 8;

#pragma text kConvPaddedText
// A thread has one pixel.
extern "C" __global__ void widen(const u16* from, u16* to, i64 pixels) {
  for (i64 i = first_index(); i < pixels; i += grid_step()) {
    Pack<u16, kWide> all;
#pragma unroll
    for (int k = 0; k < kWide; ++k) all.v[k] = k < kChannels ? from[i * kChannels + k] : (u16)0;
    *(Pack<u16, kWide>*)(to + i * kWide) = all;
  }
}
extern "C" __global__ void narrow(const u16* from, u16* to, i64 pixels) {
  for (i64 i = first_index(); i < pixels; i += grid_step()) {
    const Pack<u16, kWide> all = *(const Pack<u16, kWide>*)(from + i * kWide);
#pragma unroll
    for (int k = 0; k < kChannels; ++k) to[i * kChannels + k] = all.v[k];
  }
}
