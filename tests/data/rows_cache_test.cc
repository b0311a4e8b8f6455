#include "trireme/data/rows_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/disk.h"
#include "tests/data/fixture.h"
#include "trireme/base/hash.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;

DataSpec pictures() {
  return {.kind = "images", .path = "p", .test = 0, .options = {{"shape", "3x8x8"}}, .cache_dir = "cache"};
}

void put_pictures(DataDisk& disk) {
  for (int i = 0; i < 6; ++i)
    disk.put_fixture(fmt::format("p/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i),
                     i < 3 ? "colour.jpg" : "progressive.jpg");
}

TEST(RowsCache, TheSecondLoadTakesTheSamplesFromTheFile) {
  DataDisk disk;
  put_pictures(disk);
  const auto first = *disk.load(pictures());
  ASSERT_EQ(disk.list("cache").size(), 1U) << "nothing is left beside the file";
  const auto second = *disk.load(pictures());
  EXPECT_EQ(second->pixels, first->pixels);
  EXPECT_EQ(second->labels, first->labels);
  // A file with a sound digest over another pixel: who decoded would not see it.
  const std::string path = "cache/" + disk.list("cache")[0];
  Bytes marked = disk.get(path);
  marked.resize(marked.size() - 64);
  marked[88] ^= std::byte{0xFF};
  const Bytes digest = to_bytes(sha256_hex(marked));
  marked.insert(marked.end(), digest.begin(), digest.end());
  disk.put(path, marked);
  EXPECT_EQ((*disk.load(pictures()))->pixels[0], 255 - first->pixels[0]);
  DataSpec without = pictures();
  without.cache_dir.clear();
  EXPECT_EQ((*disk.load(without))->pixels, first->pixels);
}

TEST(RowsCache, AnotherShapeOrPictureIsAnotherFile) {
  DataDisk disk;
  put_pictures(disk);
  const auto first = *disk.load(pictures());
  DataSpec wide = pictures();
  wide.options.set("shape", "3x8x9");
  EXPECT_EQ((*disk.load(wide))->pixels.size(), 6U * 216);
  EXPECT_EQ(disk.list("cache").size(), 2U);
  disk.put_fixture("p/cat/0.jpg", "grey.png");
  EXPECT_NE((*disk.load(pictures()))->pixels, first->pixels) << "a changed picture was taken from the cache";
  EXPECT_EQ(disk.list("cache").size(), 3U);
}

// How many operations on files a load cannot do without, the `loads`-th one: all that look for pictures and
// read them, and none of the cache's. A write before the loads takes two.
int needed_operations(int num_pictures, int loads, const std::string& cache_dir) {
  constexpr std::uint64_t kMost = 40;  // of one load
  DataSpec spec = pictures();
  spec.cache_dir = cache_dir;
  int needed = 0;
  for (std::uint64_t n = 0; n < kMost * static_cast<std::uint64_t>(loads); ++n) {
    runtime::FaultSpec fault;
    fault.kind = runtime::FaultSpec::Kind::kError;
    fault.runtime = 0;
    fault.site = "disk";
    fault.index = 2 * static_cast<std::uint64_t>(num_pictures) + n;
    DataDisk disk({fault});
    for (int i = 0; i < num_pictures; ++i) disk.put_fixture(fmt::format("p/cat/{}.jpg", i), "colour.jpg");
    bool well = true;
    for (int load = 1; load < loads && well; ++load) well = disk.load(spec).ok();
    if (well && !disk.load(spec).ok()) ++needed;
  }
  return needed;
}

TEST(RowsCache, EveryPictureIsReadOnce) {
  EXPECT_EQ(needed_operations(5, 1, "") - needed_operations(4, 1, ""), 1) << "no cache";
  EXPECT_EQ(needed_operations(5, 1, "cache") - needed_operations(4, 1, "cache"), 1) << "nothing cached yet";
  EXPECT_EQ(needed_operations(5, 2, "cache") - needed_operations(4, 2, "cache"), 1) << "cached";
}

TEST(RowsCache, RowsOfAnotherSetOfAsManyPicturesAreNotTaken) {
  DataDisk disk;
  put_pictures(disk);
  const auto first = *disk.load(pictures());
  disk.put_fixture("p/cat/0.jpg", "grey.png");
  const auto changed = *disk.load(pictures());
  EXPECT_NE(changed->pixels, first->pixels);
  EXPECT_NE(changed->content_sha256, first->content_sha256);
  EXPECT_EQ(changed->labels, first->labels);
}

TEST(RowsCache, ADamagedFileIsDecodedAnewWhereverItIsDamaged) {
  DataDisk disk;
  put_pictures(disk);
  const auto first = *disk.load(pictures());
  const std::string path = "cache/" + disk.list("cache")[0];
  const Bytes whole = disk.get(path);
  ASSERT_EQ(whole.size(), 88U + 6 * (192 + 4) + 64);
  for (const std::size_t at : {0U, 8U, 72U, 80U, 88U, 1239U, 1240U, 1270U}) {
    disk.put(path, flipped_at(whole, at));
    EXPECT_EQ((*disk.load(pictures()))->pixels, first->pixels) << at;
    EXPECT_EQ(disk.get(path), whole) << "the cache was not written anew";
  }
  disk.put(path, cut_at(whole, whole.size() - 1));
  EXPECT_EQ((*disk.load(pictures()))->labels, first->labels);
  Dataset set;
  set.sample_shape = {3, 8, 8};
  set.num_train = 6;
  const std::string key(as_text(ByteView(whole).subspan(8, 64)));
  EXPECT_TRUE(decode_rows(runtime::view_of(whole), key, set));
  EXPECT_EQ(set.pixels, first->pixels);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_rows(runtime::view_of(cut_at(whole, size)), key, set));
  EXPECT_FALSE(decode_rows(runtime::view_of(whole), std::string(64, '0'), set)) << "another key";
  set.num_train = 5;
  EXPECT_FALSE(decode_rows(runtime::view_of(whole), key, set)) << "another count";
}

TEST(RowsCache, ACacheThatCannotBeWrittenIsALineInTheLogOnly) {
  DataDisk disk;
  put_pictures(disk);
  disk.put("cache", "a file where a folder should be");
  EXPECT_TRUE(disk.load(pictures()).ok());
  ASSERT_EQ(disk.log().size(), 1U);
  EXPECT_THAT(disk.log()[0], HasSubstr("not cached"));
}

}  // namespace
}  // namespace trireme::data
