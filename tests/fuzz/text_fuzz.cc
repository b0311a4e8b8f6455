// libFuzzer target of the text reader (cmake/fuzz.cmake).
#include "tests/fuzz/text_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::data::run_text_target(std::as_bytes(std::span(data, size)));
  return 0;
}
