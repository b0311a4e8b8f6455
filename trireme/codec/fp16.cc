#include "trireme/codec/codec.h"
#include "trireme/codec/halves.h"
#include "trireme/codec/loops.h"

namespace trireme::codec {
namespace {

const HalfFormat& format() {
  static const HalfFormat kFormat{"fp16", 1, loops().to_f16, loops().add_f16, 65504.0F};
  return kFormat;
}

}  // namespace

extern const CodecRow kFp16{
    .name = "fp16",
    .doc = "IEEE half precision: 10 bits of fraction, up to 65504.",
    .paper = "Micikevicius et al. 2018, Mixed precision training",
    .wire_id = 1,
    .bound = Bound::kRounding,
    .needs_feedback = false,
    .bytes = half_bytes,
    .make = [](const Options&) -> Result<std::unique_ptr<Codec>> { return make_half(format()); }};

}  // namespace trireme::codec
