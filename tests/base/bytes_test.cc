#include "trireme/base/bytes.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Bytes, LittleEndianValuesComeBackInOrder) {
  Bytes out;
  append_le(out, std::uint32_t{0x01020304});
  append_le(out, std::uint16_t{0xABCD});
  EXPECT_EQ(to_hex(out), "04030201cdab");
  ByteView in = out;
  std::uint32_t a = 0;
  std::uint16_t b = 0;
  EXPECT_TRUE(take_le(in, a));
  EXPECT_TRUE(take_le(in, b));
  EXPECT_EQ(a, 0x01020304U);
  EXPECT_EQ(b, 0xABCD);
  EXPECT_TRUE(in.empty());
}

TEST(Bytes, TakingMoreThanIsThereChangesNothing) {
  const Bytes three(3);
  ByteView in = three;
  std::uint32_t value = 7;
  EXPECT_FALSE(take_le(in, value));
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(in.size(), 3U);
}

TEST(Bytes, TextAndBytesConvertBothWays) { EXPECT_EQ(as_text(to_bytes("héllo")), "héllo"); }

}  // namespace
}  // namespace trireme
