// libFuzzer target of messages that hold the encodings of several tensors.
#include "tests/fuzz/packer_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::codec::run_packer_target(std::as_bytes(std::span(data, size)));
  return 0;
}
