// libFuzzer target of the codecs' decoders: the first byte chooses the codec and its options, the second the
// number of values.
#include "tests/fuzz/codec_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::codec::run_codec_target(std::as_bytes(std::span(data, size)));
  return 0;
}
