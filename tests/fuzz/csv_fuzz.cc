// libFuzzer target of the CSV reader (cmake/fuzz.cmake).
#include "tests/fuzz/csv_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::data::run_csv_target(std::as_bytes(std::span(data, size)));
  return 0;
}
