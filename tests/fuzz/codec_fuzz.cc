// libFuzzer targets of the codecs' decoders, codec_<name>: one program per codec, FUZZ_CODEC is its name.
#include "tests/fuzz/codec_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace codec = trireme::codec;
  static const codec::CodecRow& row = **codec::find_codec(FUZZ_CODEC);
  static const codec::FuzzCodecs codecs = codec::fuzz_codecs(row);
  codec::run_codec_target(row, codecs, std::as_bytes(std::span(data, size)));
  return 0;
}
