// libFuzzer target of the job reader (cmake/fuzz.cmake).
#include "tests/fuzz/job_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::train::run_job_target(std::as_bytes(std::span(data, size)));
  return 0;
}
