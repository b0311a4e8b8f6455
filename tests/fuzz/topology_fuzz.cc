// libFuzzer target of the topology reader (cmake/fuzz.cmake).
#include "tests/fuzz/topology_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::cost::run_topology_target(std::as_bytes(std::span(data, size)));
  return 0;
}
