// Hashes: SHA-256 for content (files, parameters) and a fast 64-bit running hash for traces. Neither is
// keyed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/base/bytes.h"

namespace trireme {

// Streaming SHA-256. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView bytes);
  void update(std::string_view text) { update(as_bytes(text)); }
  std::string hex_digest();  // ends the stream: call once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(ByteView bytes);

// Order-dependent running hash over 64-bit words (multiply-xorshift mixing): equal sequences, equal value.
class TraceHash {
 public:
  void add(std::uint64_t word) {
    value_ ^= word;
    value_ *= 0x9E3779B97F4A7C15ULL;
    value_ ^= value_ >> 29;
    value_ *= 0xBF58476D1CE4E5B9ULL;
    value_ ^= value_ >> 32;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

// FNV-1a of a text, for fingerprints of short names.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001B3ULL;
  }
  return h;
}

}  // namespace trireme
