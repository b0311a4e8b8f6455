#include "trireme/base/rng.h"

#include <cmath>

#include "trireme/base/check.h"

namespace trireme {

std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::array<std::uint32_t, 4> c) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

std::uint64_t mix_key(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const auto w = philox4x32(a, {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                                static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32)});
  return (static_cast<std::uint64_t>(w[0]) << 32) | w[1];
}

std::uint32_t Philox::next_u32() {
  if (used_ == 4) {
    words_ =
        philox4x32(key_, {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                          static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
    ++block_;
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

float Philox::next_normal() {
  const double u = 1.0 - next_double();  // (0, 1]: log is finite
  const double v = next_double();
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
}

std::uint32_t Philox::next_below(std::uint32_t n) {
  TR_CHECK(n >= 1);
  const std::uint32_t reject_below = (0U - n) % n;  // 2^32 mod n: the draws that would favour small values
  for (;;) {
    const std::uint64_t product = std::uint64_t{next_u32()} * n;
    if (static_cast<std::uint32_t>(product) >= reject_below) return static_cast<std::uint32_t>(product >> 32);
  }
}

std::uint64_t permute_index(std::uint64_t key, std::uint64_t n, std::uint64_t index) {
  TR_CHECK(n >= 1 && index < n, "index {} of {}", index, n);
  int half_bits = 1;
  while (half_bits < 32 && (std::uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t x = index;
  do {
    std::uint64_t left = x >> half_bits, right = x & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const auto w = philox4x32(
          key, {static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(right >> 32), round, 1});
      const std::uint64_t next = left ^ (w[0] & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits) | right;
  } while (x >= n);
  return x;
}

}  // namespace trireme
