#include "trireme/base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trireme {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reflected: the lowest power is the highest bit

using Table = std::array<std::uint32_t, 256>;

// kTables[k][b]: the checksum register after byte b and k zero bytes, so that eight bytes are eight look-ups.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (std::uint32_t b = 0; b < 256; ++b)
    for (std::size_t k = 1; k < 8; ++k)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xFF];
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

std::uint64_t load(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

std::uint32_t update_by_table(std::uint32_t crc, const std::byte* at, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, at += 8) {
    const std::uint64_t word = load(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; bytes > 0; --bytes, ++at)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

// a * b modulo the polynomial, in the reflected order.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1U << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

// x^exponent, exponent even.
constexpr std::uint32_t power_of_x(std::size_t exponent) {
  std::uint32_t power = 1U << 31;                       // x^0
  std::uint32_t square = multiply(1U << 30, 1U << 30);  // x^2, then x^4...
  for (std::size_t rest = exponent >> 1; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

// Appending `bytes` zero bytes multiplies the register by x^(8 bytes): a linear map, as four tables.
constexpr std::array<Table, 4> make_shift(std::size_t bytes) {
  const std::uint32_t power = power_of_x(8 * bytes);
  std::array<Table, 4> tables{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::uint32_t b = 0; b < 256; ++b) tables[k][b] = multiply(power, b << (8 * k));
  return tables;
}

std::uint32_t shift(const std::array<Table, 4>& tables, std::uint32_t crc) {
  return tables[0][crc & 0xFF] ^ tables[1][(crc >> 8) & 0xFF] ^ tables[2][(crc >> 16) & 0xFF] ^
         tables[3][crc >> 24];
}

// The instruction has a latency of three cycles and starts one per cycle: three runs side by side keep it
// busy. Two sizes of runs, so that messages of a kilobyte gain too.
constexpr std::size_t kLong = 4096, kShort = 256;
constexpr std::array<Table, 4> kShiftLong = make_shift(kLong), kShiftShort = make_shift(kShort);

template <std::size_t kRun>
[[gnu::target("sse4.2")]] std::uint64_t update_three(std::uint64_t crc, const std::byte*& at,
                                                     std::size_t& bytes, const std::array<Table, 4>& tables) {
  while (bytes >= 3 * kRun) {
    std::uint64_t b = 0, c = 0;
    for (std::size_t i = 0; i < kRun; i += 8) {
      crc = _mm_crc32_u64(crc, load(at + i));
      b = _mm_crc32_u64(b, load(at + kRun + i));
      c = _mm_crc32_u64(c, load(at + 2 * kRun + i));
    }
    crc = shift(tables, static_cast<std::uint32_t>(crc)) ^ b;
    crc = shift(tables, static_cast<std::uint32_t>(crc)) ^ c;
    at += 3 * kRun;
    bytes -= 3 * kRun;
  }
  return crc;
}

[[gnu::target("sse4.2")]] std::uint32_t update_by_instruction(std::uint32_t start, const std::byte* at,
                                                              std::size_t bytes) {
  std::uint64_t crc = start;
  crc = update_three<kLong>(crc, at, bytes, kShiftLong);
  crc = update_three<kShort>(crc, at, bytes, kShiftShort);
  for (; bytes >= 8; bytes -= 8, at += 8) crc = _mm_crc32_u64(crc, load(at));
  auto tail = static_cast<std::uint32_t>(crc);
  for (; bytes > 0; --bytes, ++at) tail = _mm_crc32_u8(tail, static_cast<unsigned char>(*at));
  return tail;
}

// Folding with carry-less products (Gopal, Ozturk, Guilford et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction", Intel, 2009), 256 bytes at a time in four registers: a block of
// 128 bits a*x^64 + b that lies kFoldBytes before another is congruent to a * x^(n+64) + b * x^n added to
// that one. What is left in the registers is a message of 256 bytes with the same checksum.
constexpr std::size_t kFoldBytes = 256, kWorthFolding = 1024;

[[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]] std::uint32_t update_by_folding(std::uint32_t start,
                                                                                    const std::byte* at,
                                                                                    std::size_t bytes) {
  constexpr auto kLow = static_cast<long long>(std::uint64_t{power_of_x(8 * kFoldBytes + 32)} << 1);
  constexpr auto kHigh = static_cast<long long>(std::uint64_t{power_of_x(8 * kFoldBytes - 32)} << 1);
  const __m512i by = _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
  __m512i fold[4];
  for (int i = 0; i < 4; ++i) fold[i] = _mm512_loadu_si512(at + 64 * i);
  fold[0] = _mm512_xor_si512(fold[0], _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, static_cast<long long>(start)));
  for (at += kFoldBytes, bytes -= kFoldBytes; bytes >= kFoldBytes; at += kFoldBytes, bytes -= kFoldBytes)
    for (int i = 0; i < 4; ++i) {
      const __m512i low = _mm512_clmulepi64_epi128(fold[i], by, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(fold[i], by, 0x11);
      fold[i] = _mm512_xor_si512(_mm512_xor_si512(low, high), _mm512_loadu_si512(at + 64 * i));
    }
  alignas(64) std::byte left[kFoldBytes];
  for (int i = 0; i < 4; ++i) _mm512_store_si512(left + 64 * i, fold[i]);
  return update_by_instruction(update_by_instruction(0, left, kFoldBytes), at, bytes);
}

bool can_fold() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"); }

#endif

}  // namespace

std::uint32_t crc32c_by_table(ByteView bytes, std::uint32_t crc) {
  return ~update_by_table(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32c_by_instruction(ByteView bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~update_by_instruction(~crc, bytes.data(), bytes.size());
#endif
  return crc32c_by_table(bytes, crc);
}

std::uint32_t crc32c(ByteView bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  if (bytes.size() >= kWorthFolding && can_fold())
    return ~update_by_folding(~crc, bytes.data(), bytes.size());
#endif
  return crc32c_by_instruction(bytes, crc);
}

}  // namespace trireme
