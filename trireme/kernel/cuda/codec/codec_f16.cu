// Halves of messages in f16.
#pragma once

#include "trireme/kernel/cuda/codec/codec_common.cu"

#pragma text kCodecF16Text
// Rounding is that of codec/loops.inc: to the nearest, ties to even.
constexpr float LARGEST = 65504.0f;
__device__ __forceinline__ u32 to_half(float v) { return from_f<half>(v).bits; }
__device__ __forceinline__ float of_half(u32 bits) {
  half h;
  h.bits = (u16)bits;
  return to_f(h);
}
