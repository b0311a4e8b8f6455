// Halves of messages in bf16.
#pragma once

#include "trireme/kernel/cuda/codec/codec_common.cu"

#pragma text kCodecBf16Text
constexpr float LARGEST = 3.38953138925153547590470800371487866880e+38f;
__device__ __forceinline__ u32 to_half(float v) {
  const u32 bits = __float_as_uint(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ __forceinline__ float of_half(u32 bits) { return __uint_as_float(bits << 16); }
