// libFuzzer target of the safetensors reader (cmake/fuzz.cmake).
//
// The header's length stands before it, so an edit that moves its end would always be refused for that: in
// half of the cases only the header is edited and its length put right.
#include "tests/fuzz/safetensors_target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::uint64_t header = 0;
  constexpr std::size_t kPrefix = sizeof(header);
  if (size >= kPrefix) std::memcpy(&header, data, kPrefix);
  if (size < kPrefix || header > size - kPrefix || size > max_size || seed % 2 == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::uint8_t> text(data + kPrefix, data + kPrefix + header);
  const std::vector<std::uint8_t> tensors(data + kPrefix + header, data + size);
  text.resize(max_size - kPrefix - tensors.size());
  header = LLVMFuzzerMutate(text.data(), header, text.size());
  std::memcpy(data, &header, kPrefix);
  std::copy_n(text.begin(), header, data + kPrefix);
  std::copy(tensors.begin(), tensors.end(), data + kPrefix + header);
  return kPrefix + header + tensors.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::io::run_safetensors_target(std::as_bytes(std::span(data, size)));
  return 0;
}
