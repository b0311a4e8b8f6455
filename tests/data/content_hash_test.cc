#include "trireme/data/content_hash.h"

#include <gtest/gtest.h>

#include "tests/data/disk.h"
#include "tests/data/fixture.h"

namespace trireme::data {
namespace {

std::string hash_of(DataDisk& disk, DataSpec spec) {
  const auto set = disk.load(std::move(spec));
  EXPECT_TRUE(set.ok()) << set.status().to_string();
  return set.ok() ? (*set)->content_sha256 : "";
}

std::string hash_of_table(std::string_view text, DataSpec spec = {}) {
  DataDisk disk;
  disk.put("t.csv", text);
  spec.kind = "csv";
  spec.path = "t.csv";
  return hash_of(disk, std::move(spec));
}

TEST(ContentHash, OfATableChangesWithEveryValueAndLabelButNotWithTheSplit) {
  const std::string table = "a,b,kind\n1,2,x\n2,4,y\n3,6,x\n4,8,y\n";
  const std::string hash = hash_of_table(table);
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(hash_of_table(table), hash);
  EXPECT_EQ(hash_of_table(table, {.seed = 7, .limit_train = 2, .test = 0.5}), hash)
      << "parts and limits are the job's, not the data's";
  EXPECT_EQ(hash_of_table("p,q,r\r\n1.0,2,x\r\n2,4,y\r\n3,6,x\r\n4,8,y\r\n"), hash)
      << "what is not trained on does not count";
  EXPECT_NE(hash_of_table("a,b,kind\n2,4,x\n4,8,y\n6,12,x\n8,16,y\n"), hash)
      << "all values twice as large are other data, though the standardised ones are equal";
  EXPECT_NE(hash_of_table("a,b,kind\n1,2,y\n2,4,x\n3,6,y\n4,8,x\n"), hash) << "labels swapped";
  EXPECT_NE(hash_of_table("a,b,kind\n1,2,x\n2,4,z\n3,6,x\n4,8,z\n"), hash) << "another class name";
  EXPECT_NE(hash_of_table(table + "5,1,x\n"), hash) << "a row more";
}

TEST(ContentHash, OfDrawnSamplesIsThatOfTheirSeed) {
  DataDisk disk;
  const std::string digits = hash_of(disk, {.kind = "digits", .limit_train = 20, .limit_test = 10});
  EXPECT_EQ(hash_of(disk, {.kind = "digits", .limit_train = 30, .limit_test = 10}), digits);
  EXPECT_NE(hash_of(disk, {.kind = "digits", .seed = 1, .limit_train = 20, .limit_test = 10}), digits);
  const std::string noise =
      hash_of(disk, {.kind = "synthetic", .options = {{"num_train", 20}, {"num_test", 5}}});
  EXPECT_NE(
      hash_of(disk, {.kind = "synthetic", .options = {{"classes", 3}, {"num_train", 20}, {"num_test", 5}}}),
      noise);
}

TEST(ContentHash, OfImagesIsTheSameFromTheCache) {
  DataDisk disk;
  disk.put_fixture("pics/a/1.png", "grey.png").put_fixture("pics/b/1.png", "alpha.png");
  const DataSpec spec{.kind = "images", .path = "pics", .test = 0, .options = {{"shape", "3x8x8"}}};
  const std::string hash = hash_of(disk, spec);
  DataSpec cached = spec;
  cached.cache_dir = "cache";
  EXPECT_EQ(hash_of(disk, cached), hash) << "decoded";
  EXPECT_EQ(hash_of(disk, cached), hash) << "from the cache";
  disk.put_fixture("pics/b/1.png", "palette.png");
  EXPECT_NE(hash_of(disk, cached), hash);
}

TEST(ContentHash, OfATextChangesWithItsTokensAndNotWithTheWindows) {
  DataDisk disk;
  disk.put("a.txt", "to be or not to be that is the question")
      .put("b.txt", "to be or not to be that is the answer!!");
  const DataSpec spec{.kind = "text", .path = "a.txt", .test = 0.4, .options = {{"context", 4}}};
  const std::string hash = hash_of(disk, spec);
  DataSpec wider = spec, other = spec;
  wider.options.set("context", 6);
  other.path = "b.txt";
  EXPECT_EQ(hash_of(disk, wider), hash);
  EXPECT_NE(hash_of(disk, other), hash);
}

TEST(Dataset, KeepsByHowMuchATableWasStandardised) {
  DataDisk disk;
  disk.put("t.csv", "a,b,kind\n1,5,x\n3,5,y\n");
  const auto set = *disk.load({.kind = "csv", .path = "t.csv", .test = 0});
  EXPECT_EQ(set->standard.mean, (std::vector<double>{2, 5}));
  EXPECT_EQ(set->standard.scale, (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace trireme::data
