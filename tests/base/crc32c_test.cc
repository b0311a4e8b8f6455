#include "trireme/base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>

#include "trireme/base/rng.h"

namespace trireme {
namespace {

Bytes filled(std::size_t bytes, int value) { return Bytes(bytes, static_cast<std::byte>(value)); }

Bytes counting(int first, int step) {
  Bytes out(32);
  for (int i = 0; i < 32; ++i) out[static_cast<std::size_t>(i)] = static_cast<std::byte>(first + step * i);
  return out;
}

// RFC 3720, appendix B.4. The RFC prints the checksum as it goes on the wire, lowest byte first.
TEST(Crc32c, GivesTheValuesOfTheStandard) {
  for (const auto crc : {crc32c, crc32c_by_instruction, crc32c_by_table}) {
    EXPECT_EQ(crc(filled(32, 0), 0), 0x8A9136AAU);
    EXPECT_EQ(crc(filled(32, 0xFF), 0), 0x62A8AB43U);
    EXPECT_EQ(crc(counting(0, 1), 0), 0x46DD794EU);
    EXPECT_EQ(crc(counting(31, -1), 0), 0x113FDB5CU);
    const unsigned char read_command[48] = {0x01, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                            0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                            0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
    EXPECT_EQ(crc(std::as_bytes(std::span(read_command)), 0), 0xD9963A56U);
    EXPECT_EQ(crc(as_bytes("123456789"), 0), 0xE3069283U);
    EXPECT_EQ(crc({}, 0), 0U);
  }
}

TEST(Crc32c, AllFormsAgreeForEveryLengthAndStart) {
  Philox random(7);
  Bytes bytes(40'000);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next_u32());
  std::vector<std::size_t> lengths(1600);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (const std::size_t length : {3U * 256, 3U * 4096, 3U * 4096 + 3U * 256 + 13, 39'990U})
    lengths.push_back(length);
  for (const std::size_t length : lengths)
    for (const std::size_t start : {0U, 1U, 7U}) {
      const ByteView view = ByteView(bytes).subspan(start, length);
      const auto before = static_cast<std::uint32_t>(length * 2654435761U);
      const std::uint32_t right = crc32c_by_table(view, before);
      ASSERT_EQ(crc32c(view, before), right) << length << " from " << start;
      ASSERT_EQ(crc32c_by_instruction(view, before), right) << length << " from " << start;
    }
}

TEST(Crc32c, GoesOnFromAnEarlierPart) {
  const Bytes bytes = counting(3, 5);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(ByteView(bytes).subspan(cut), crc32c(ByteView(bytes).first(cut))), crc32c(bytes));
}

TEST(Crc32c, EverySingleBitCounts) {
  Bytes bytes = counting(9, 2);
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(crc32c(bytes), right);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace trireme
