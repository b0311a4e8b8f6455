#include "trireme/data/read/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/fixture.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

TEST(Cifar, ReadsBothKindsAndBothSetsOfLabels) {
  Dataset ten;
  ASSERT_TRUE(append_cifar(ten, CifarKind::k10, fixture("cifar10.bin"), "a").ok());
  ASSERT_TRUE(append_cifar(ten, CifarKind::k10, fixture("cifar10.bin"), "b").ok());
  EXPECT_EQ(ten.labels, (std::vector<std::int32_t>{0, 3, 6, 0, 3, 6}));
  ASSERT_EQ(ten.pixels.size(), 6U * 3072);
  for (std::size_t i = 0; i < 3 * 3072; ++i) EXPECT_EQ(ten.pixels[i], (i % 3072 + i / 3072) % 256);
  Dataset fine, coarse;
  ASSERT_TRUE(append_cifar(fine, CifarKind::k100Fine, fixture("cifar100.bin"), "f").ok());
  ASSERT_TRUE(append_cifar(coarse, CifarKind::k100Coarse, fixture("cifar100.bin"), "c").ok());
  EXPECT_EQ(fine.labels, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(coarse.labels, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(fine.pixels[3072], 1);
}

TEST(Cifar, FilesCutWithinARecordNameTheOffset) {
  const Bytes whole = fixture("cifar10.bin");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size > 0 && size % 3073 == 0) continue;  // whole records: a shorter file
    Dataset set;
    const Status s = append_cifar(set, CifarKind::k10, cut_at(whole, size), "cut.bin");
    ASSERT_FALSE(s.ok()) << size;
    EXPECT_THAT(s.message(), HasSubstr(fmt::format("cut.bin, offset {}:", size)));
  }
}

TEST(Cifar, ALabelOutOfRangeNamesItsOffset) {
  Bytes bytes = fixture("cifar10.bin");
  bytes[2 * 3073] = std::byte{10};
  Dataset set;
  EXPECT_THAT(append_cifar(set, CifarKind::k10, bytes, "x").message(),
              HasSubstr("offset 6146: label 10, expected 0 to 9"));
  bytes = fixture("cifar100.bin");
  bytes[3074] = std::byte{20};
  EXPECT_THAT(append_cifar(set, CifarKind::k100Coarse, bytes, "x").message(),
              HasSubstr("offset 3074: label 20"));
  bytes[3075] = std::byte{100};
  EXPECT_THAT(append_cifar(set, CifarKind::k100Fine, bytes, "x").message(),
              HasSubstr("offset 3075: label 100"));
}

}  // namespace
}  // namespace trireme::data
