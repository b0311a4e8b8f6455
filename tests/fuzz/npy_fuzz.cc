// libFuzzer target of the NPY reader (cmake/fuzz.cmake).
#include "tests/fuzz/arrays_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::data::run_npy_target(std::as_bytes(std::span(data, size)));
  return 0;
}
