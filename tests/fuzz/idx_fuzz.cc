// libFuzzer target of the IDX reader (cmake/fuzz.cmake).
#include "tests/fuzz/arrays_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::data::run_idx_target(std::as_bytes(std::span(data, size)));
  return 0;
}
