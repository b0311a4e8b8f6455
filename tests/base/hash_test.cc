#include "trireme/base/hash.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256, MatchesThePublishedDigests) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  hash.update("a");
  hash.update("");
  Sha256 moved = std::move(hash);
  moved.update("bc");
  EXPECT_EQ(moved.hex_digest(), sha256_hex(as_bytes("abc")));
}

TEST(TraceHash, DependsOnEveryWordAndTheirOrder) {
  const auto of = [](std::initializer_list<std::uint64_t> words) {
    TraceHash hash;
    for (const std::uint64_t word : words) hash.add(word);
    return hash.value();
  };
  EXPECT_EQ(of({1, 2}), of({1, 2}));
  EXPECT_NE(of({1, 2}), of({2, 1}));
  EXPECT_NE(of({1}), of({1, 0}));
  EXPECT_NE(of({}), of({0}));
}

// FNV-1a test vectors (Noll).
TEST(HashText, MatchesThePublishedVectors) {
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace trireme
