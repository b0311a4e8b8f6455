#include "trireme/base/hash.h"

// The plain functions, though deprecated: linked statically they are some kilobytes, the EVP interface brings
// the whole of libcrypto along, five megabytes of the bundle.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>

#include "trireme/base/check.h"

namespace trireme {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { TR_CHECK(SHA256_Init(&state_->context) == 1); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView bytes) {
  TR_CHECK(SHA256_Update(&state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex_digest() {
  std::array<std::byte, 32> digest{};
  TR_CHECK(SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state_->context) == 1);
  return to_hex(digest);
}

std::string sha256_hex(ByteView bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

}  // namespace trireme
