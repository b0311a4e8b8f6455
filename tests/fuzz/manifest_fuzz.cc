// libFuzzer target of the reader of checkpoint manifests (cmake/fuzz.cmake).
#include "tests/fuzz/manifest_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::io::run_manifest_target(std::as_bytes(std::span(data, size)));
  return 0;
}
