// libFuzzer target of the graph deserialiser (cmake/fuzz.cmake).
#include "tests/fuzz/graph_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::graph::run_graph_target(std::as_bytes(std::span(data, size)));
  return 0;
}
