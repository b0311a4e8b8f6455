#include "trireme/codec/codec.h"
#include "trireme/codec/halves.h"
#include "trireme/codec/loops.h"

namespace trireme::codec {
namespace {

const HalfFormat& format() {
  static const HalfFormat kFormat{"bf16", 2, loops().to_bf16, loops().add_bf16, 0x1.FEp127F};
  return kFormat;
}

}  // namespace

extern const CodecRow kBf16{
    .name = "bf16",
    .doc = "The upper half of a float: its range, 7 bits of fraction.",
    .paper = "Micikevicius et al. 2018, Mixed precision training",
    .wire_id = 2,
    .bound = Bound::kRounding,
    .needs_feedback = false,
    .bytes = half_bytes,
    .make = [](const Options&) -> Result<std::unique_ptr<Codec>> { return make_half(format()); }};

}  // namespace trireme::codec
