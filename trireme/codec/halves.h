// Shorter floats as codecs: what fp16.cc and bf16.cc have in common.
#pragma once

#include "trireme/codec/codec.h"

namespace trireme::codec {

struct HalfFormat {
  const char* name;
  std::uint8_t wire_id;
  void (*to)(const float* from, std::uint16_t* to, std::size_t n);
  void (*add)(const std::uint16_t* from, float* to, std::size_t n);
  float largest;  // larger magnitudes are cut to it; what is cut stays in the residual
};
std::unique_ptr<Codec> make_half(const HalfFormat& format);
inline double half_bytes(const Options&, double count) { return 8 + 2 * count; }

}  // namespace trireme::codec
