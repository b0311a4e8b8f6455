// libFuzzer target of the picture decoder (cmake/fuzz.cmake).
#include "tests/fuzz/image_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::data::run_image_target(std::as_bytes(std::span(data, size)));
  return 0;
}
