// libFuzzer target of the plan reader (cmake/fuzz.cmake).
#include "tests/fuzz/plan_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::plan::run_plan_target(std::as_bytes(std::span(data, size)));
  return 0;
}
