#include "tests/data/fixture.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "trireme/base/check.h"

namespace trireme::data {

std::string fixture_path(const std::string& name) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/tests/data/fixtures/" + name;
}

Bytes fixture(const std::string& name) {
  std::ifstream in(fixture_path(name), std::ios::binary);
  TR_CHECK(in.good(), "no fixture {}", name);
  return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
}

Bytes cut_at(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

Bytes flipped_at(Bytes bytes, std::size_t at, unsigned mask) {
  bytes[at] ^= static_cast<std::byte>(mask);
  return bytes;
}

}  // namespace trireme::data
