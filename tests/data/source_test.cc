#include "trireme/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/disk.h"
#include "tests/data/fixture.h"
#include "trireme/data/digits.h"

namespace trireme::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

TEST(DataKinds, HaveUniqueNamesAndDocs) {
  std::set<std::string> names;
  for (const DataKind& kind : data_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_GT(std::string(kind.doc).size(), 20U) << kind.name;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"digits", "idx", "cifar", "npy", "csv", "images", "text", "synthetic"}));
}

TEST(DataKinds, EveryOneThatNeedsAPathSaysSoAndNamesAMissingOne) {
  DataDisk disk;
  for (const DataKind& kind : data_kinds()) {
    if (!kind.needs_path) continue;
    EXPECT_THAT(disk.why({.kind = kind.name}), HasSubstr(fmt::format("kind '{}' needs a path", kind.name)));
    EXPECT_THAT(disk.why({.kind = kind.name, .path = "not/there", .options = {{"shape", "3x8x8"}}}),
                HasSubstr("not/there"));
  }
}

TEST(MakeDataset, RefusesWhatMakesNoSense) {
  DataDisk disk;
  EXPECT_THAT(disk.why({.kind = "mnist"}),
              HasSubstr("unknown kind 'mnist'; expected one of digits, idx, cifar"));
  EXPECT_THAT(disk.why({.test = 1}), HasSubstr("test fraction: got 1"));
  EXPECT_THAT(disk.why({.validation = -0.5}), HasSubstr("validation fraction: got -0.5"));
  EXPECT_THAT(disk.why({.limit_train = -1}), HasSubstr("limits: got -1"));
  EXPECT_THAT(disk.why({.kind = "synthetic", .augment = {.shift = 2}, .options = {{"shape", "20"}}}),
              HasSubstr("needs images"));
}

TEST(MakeDataset, DigitsAreThoseOfLoadDigits) {
  const auto set = DataDisk().load({.kind = "digits", .limit_train = 30, .limit_test = 10});
  ASSERT_TRUE(set.ok()) << set.status().to_string();
  EXPECT_EQ((*set)->num_train, 30);
  EXPECT_EQ((*set)->num_test, 10);
  EXPECT_TRUE((*set)->rows.empty());
  EXPECT_EQ((*set)->mean, 33.0F) << "the built-in normalisation stays";
  std::array<std::uint8_t, kDigitSide * kDigitSide> image;
  EXPECT_EQ((*set)->labels[35], draw_digit({}, kDigitTrain + 5, image));
}

TEST(MakeDataset, IdxFoldersAreReadPackedOrNot) {
  DataDisk disk;
  disk.put_fixture("mnist/train-images-idx3-ubyte.gz", "images.idx.gz");
  disk.put_fixture("mnist/train-labels-idx1-ubyte", "labels.idx");
  disk.put_fixture("mnist/t10k-images-idx3-ubyte", "images.idx");
  disk.put_fixture("mnist/t10k-images-idx3-ubyte.gz", "images.idx.gz");
  disk.put_fixture("mnist/t10k-labels-idx1-ubyte", "labels.idx");
  const auto loaded = disk.load({.kind = "idx", .path = "mnist"});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  const Dataset& set = **loaded;
  EXPECT_EQ(set.num_train, 5);
  EXPECT_EQ(set.num_test, 5);
  EXPECT_EQ(set.num_classes, 4);
  EXPECT_EQ(set.sample_shape, (Shape{1, 4, 3}));
  EXPECT_THAT(set.labels, ElementsAre(3, 0, 2, 1, 3, 3, 0, 2, 1, 3));
  double sum = 0, squares = 0;
  for (std::int64_t id = 0; id < 5; ++id)
    for (const float v : features_of(set, id)) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 60, 0, 1e-6);
  EXPECT_NEAR(squares / 60, 1, 1e-5);
}

TEST(MakeDataset, IdxFoldersThatAreIncompleteOrDamagedNameTheFile) {
  DataDisk disk;
  disk.put_fixture("a/readme", "labels.idx");
  EXPECT_THAT(disk.why({.kind = "idx", .path = "a"}),
              HasSubstr("a: no file named like train-images-idx3-ubyte"));
  disk.put_fixture("b/train-labels", "labels.idx");
  EXPECT_THAT(disk.why({.kind = "idx", .path = "b"}), HasSubstr("train-labels has no file of images"));
  disk.put("c/train-images", cut_at(fixture("images.idx"), 70));
  EXPECT_THAT(disk.why({.kind = "idx", .path = "c"}),
              HasSubstr("c/train-images, offset 70: the file ends early"));
  disk.put("d/train-images.gz", cut_at(fixture("images.idx.gz"), 40));
  EXPECT_THAT(disk.why({.kind = "idx", .path = "d"}),
              HasSubstr("d/train-images.gz, offset 40: compressed data is damaged"));
  disk.put_fixture("e/letters-train-images", "images.idx").put_fixture("e/digits-train-images", "images.idx");
  EXPECT_THAT(disk.why({.kind = "idx", .path = "e"}),
              HasSubstr("both digits-train-images and letters-train-images fit"));
}

TEST(MakeDataset, WithoutATestPartAShareIsHeldOutByTheSeedAlone) {
  DataDisk disk;
  disk.put_fixture("d/x.npy", "samples.npy").put_fixture("d/y.npy", "sample_labels.npy");
  const DataSpec spec{.kind = "npy", .path = "d", .test = 0.33, .validation = 0.25};
  const auto a = *disk.load(spec), b = *disk.load(spec);
  EXPECT_EQ(a->num_train, 3);
  EXPECT_EQ(a->num_test, 2);
  EXPECT_EQ(a->num_validation, 1);
  EXPECT_EQ(a->rows, b->rows);
  Ids sorted = a->rows;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (Ids{0, 1, 2, 3, 4, 5})) << "every sample in exactly one part";
  std::set<Ids> draws;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DataSpec other = spec;
    other.seed = seed;
    draws.insert((*disk.load(other))->rows);
  }
  EXPECT_GT(draws.size(), 5U);
  const auto none = *disk.load({.kind = "npy", .path = "d", .test = 0});
  EXPECT_EQ(none->num_train, 6);
  EXPECT_EQ(none->num_test, 0);
}

TEST(MakeDataset, NpzHoldsPartsByName) {
  DataDisk disk;
  disk.put_fixture("set.npz", "deflated.npz").put_fixture("other.npz", "comment.npz");
  const auto set = *disk.load({.kind = "npy", .path = "set.npz"});
  EXPECT_EQ(set->num_train, 4);
  EXPECT_EQ(set->num_test, 2);
  EXPECT_EQ(set->num_classes, 3);
  EXPECT_EQ(set->label_of(5), 2);
  const auto floats = *disk.load({.kind = "npy", .path = "other.npz", .test = 0});
  EXPECT_EQ(floats->label_kind, Labels::kNone);
  EXPECT_EQ(floats->sample_shape, (Shape{1, 3, 4}));
  EXPECT_EQ(features_of(*floats, 0)[0], -4) << "floats stay as they are";
  disk.put_fixture("e/z.npy", "samples.npy");
  EXPECT_THAT(disk.why({.kind = "npy", .path = "e"}), HasSubstr("no array x_train or x; it has: z"));
}

TEST(MakeDataset, LimitsTakeTheFirstOfEachPart) {
  DataDisk disk;
  disk.put_fixture("set.npz", "stored.npz");
  const auto set = *disk.load({.kind = "npy", .path = "set.npz", .limit_train = 2, .limit_test = 1});
  EXPECT_EQ(set->num_train, 2);
  EXPECT_EQ(set->num_test, 1);
  EXPECT_EQ(set->rows, (Ids{0, 1, 4}));
}

TEST(MakeDataset, WithoutLabelsSamplesAreTheirOwnTargets) {
  DataDisk disk;
  disk.put_fixture("set.npz", "stored.npz");
  const auto set = *disk.load({.kind = "npy", .path = "set.npz", .labels = false});
  EXPECT_EQ(set->label_kind, Labels::kNone);
  EXPECT_TRUE(set->labels.empty());
}

TEST(MakeDataset, CifarIsToldByItsFiles) {
  DataDisk disk;
  disk.put_fixture("c10/data_batch_1.bin", "cifar10.bin").put_fixture("c10/data_batch_2.bin", "cifar10.bin");
  disk.put_fixture("c10/test_batch.bin", "cifar10.bin");
  disk.put("c10/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto ten = *disk.load({.kind = "cifar", .path = "c10"});
  EXPECT_EQ(ten->num_train, 6);
  EXPECT_EQ(ten->num_test, 3);
  EXPECT_EQ(ten->class_names[9], "j");
  EXPECT_EQ(ten->channel_mean.size(), 3U);
  disk.put_fixture("c100/train.bin", "cifar100.bin").put_fixture("c100/test.bin", "cifar100.bin");
  EXPECT_EQ((*disk.load({.kind = "cifar", .path = "c100"}))->num_classes, 100);
  EXPECT_EQ((*disk.load({.kind = "cifar", .path = "c100", .options = {{"label", "coarse"}}}))->num_classes,
            20);
  EXPECT_THAT(disk.why({.kind = "cifar", .path = "c100", .options = {{"label", "rough"}}}),
              HasSubstr("expected fine or coarse"));
  disk.put("c10/batches.meta.txt", "a\nb\n");
  EXPECT_THAT(disk.why({.kind = "cifar", .path = "c10"}), HasSubstr("got 2 names, expected 10"));
  disk.put("empty/data_batch_1.bin", "");
  EXPECT_THAT(disk.why({.kind = "cifar", .path = "empty"}),
              HasSubstr("empty/data_batch_1.bin, offset 0: the file is empty"));
}

TEST(MakeDataset, TablesAreStandardisedByTheirTrainingRows) {
  DataDisk disk;
  disk.put("t/train.csv", "a,b,kind\n0,5,x\n2,5,y\n4,5,x\n").put("t/test.csv", "a,b,kind\n6,7,y\n");
  const auto set = *disk.load({.kind = "csv", .path = "t"});
  EXPECT_EQ(set->num_train, 3);
  EXPECT_EQ(set->num_test, 1);
  EXPECT_THAT(set->class_names, ElementsAre("x", "y"));
  EXPECT_THAT(set->labels, ElementsAre(0, 1, 0, 1));
  const auto test = features_of(*set, 3);
  EXPECT_NEAR(test[0], 4 / std::sqrt(8.0 / 3), 1e-6);
  EXPECT_EQ(test[1], 2) << "a column that never changes is only moved";
  disk.put("t/test.csv", "a,b,kind\n6,7,z\n");
  EXPECT_THAT(disk.why({.kind = "csv", .path = "t"}), HasSubstr("t/test.csv: row 0 has label 'z'"));
  disk.put("t/test.csv", "a,c,kind\n6,7,x\n");
  EXPECT_THAT(disk.why({.kind = "csv", .path = "t"}), HasSubstr("t/test.csv: other columns"));
  disk.put_fixture("flowers.csv", "flowers.csv");
  const auto flowers = *disk.load({.kind = "csv", .path = "flowers.csv", .options = {{"label", "kind"}}});
  EXPECT_EQ(flowers->num_train, 11);
  EXPECT_EQ(flowers->num_test, 1);
  EXPECT_THAT(disk.why({.kind = "csv", .path = "flowers.csv", .options = {{"separator", ",,"}}}),
              HasSubstr("separator"));
}

TEST(MakeDataset, PicturesAreCutToOneShapeClassByClass) {
  DataDisk disk;
  disk.put_fixture("p/train/cat/1.png", "colour.png").put_fixture("p/train/cat/2.jpg", "colour.jpg");
  disk.put_fixture("p/train/dog/3.JPEG", "grey.jpg").put("p/train/dog/notes.txt", "not a picture");
  disk.put_fixture("p/val/dog/4.png", "grey.png");
  const auto set = *disk.load({.kind = "images", .path = "p", .options = {{"shape", "3x8x10"}}});
  EXPECT_EQ(set->num_train, 3);
  EXPECT_EQ(set->num_test, 1);
  EXPECT_THAT(set->class_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(set->labels, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(set->pixels.size(), 4U * 240);
  EXPECT_NEAR(set->pixels[100], set->pixels[240 + 100], 3) << "the PNG and its JPEG";
  const auto grey =
      *disk.load({.kind = "images", .path = "p/train", .test = 0, .options = {{"shape", "1x4x4"}}});
  EXPECT_EQ(grey->num_train, 3);
  EXPECT_EQ(grey->num_classes, 2);
}

TEST(MakeDataset, PictureFoldersThatAreWrongNameTheFile) {
  DataDisk disk;
  disk.put_fixture("p/train/cat/1.png", "colour.png")
      .put("p/train/cat/2.png", cut_at(fixture("colour.png"), 90));
  const DataSpec spec{.kind = "images", .path = "p", .options = {{"shape", "3x8x8"}}};
  EXPECT_THAT(disk.why(spec), HasSubstr("p/train/cat/2.png, offset 0 to 90: damaged PNG"));
  disk.put("p/train/cat/2.png", "");
  EXPECT_THAT(disk.why(spec), HasSubstr("p/train/cat/2.png, offset 0: the file is empty"));
  disk.put_fixture("p/train/cat/2.png", "grey.png").put_fixture("p/test/bird/3.png", "grey.png");
  EXPECT_THAT(disk.why(spec), HasSubstr("p/test/bird: a class that the training part does not have"));
  disk.put("q/cat/notes.txt", "x");
  EXPECT_THAT(disk.why({.kind = "images", .path = "q", .options = {{"shape", "3x8x8"}}}),
              HasSubstr("q/cat: no .jpg"));
  disk.put("r/notes.txt", "x");
  EXPECT_THAT(disk.why({.kind = "images", .path = "r", .options = {{"shape", "3x8x8"}}}),
              HasSubstr("no folders with images"));
  EXPECT_THAT(disk.why({.kind = "images", .path = "q"}), HasSubstr("needs a shape like 3x64x64"));
  EXPECT_THAT(disk.why({.kind = "images", .path = "q", .options = {{"shape", "2x8x8"}}}),
              HasSubstr("1 or 3 channels"));
}

TEST(MakeDataset, TextIsSplitAtItsEndAndValidatedBeforeIt) {
  DataDisk disk;
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + i % 26);
  disk.put("t.txt", text);
  const auto set =
      *disk.load({.kind = "text", .path = "t.txt", .validation = 0.2, .options = {{"context", 9}}});
  EXPECT_EQ(set->num_train, 39);  // 450 tokens: 49 whole windows and their targets, less a fifth
  EXPECT_EQ(set->num_validation, 10);
  EXPECT_EQ(set->num_test, 5);
  EXPECT_EQ(set->rows.back(), set->stream.num_train_rows() - 1)
      << "validation takes the last training windows";
  EXPECT_EQ(set->num_classes, 26);
}

TEST(MakeDataset, SyntheticSamplesAreBalancedAndKeepTheirTestPart) {
  DataDisk disk;
  const DataSpec spec{.kind = "synthetic",
                      .options = {{"shape", "3x4x4"}, {"classes", 5}, {"num_train", 50}, {"num_test", 20}}};
  const auto set = *disk.load(spec);
  EXPECT_EQ(set->sample_shape, (Shape{3, 4, 4}));
  std::vector<int> counts(5);
  for (std::int64_t id = 0; id < 50; ++id) ++counts[static_cast<std::size_t>(set->label_of(id))];
  EXPECT_THAT(counts, ElementsAre(10, 10, 10, 10, 10));
  DataSpec fewer = spec;
  fewer.limit_train = 7;
  const auto few = *disk.load(fewer);
  EXPECT_EQ(few->num_train, 7);
  EXPECT_EQ(features_of(*few, 3), features_of(*set, 3));
  EXPECT_EQ(features_of(*few, 7), features_of(*set, 50)) << "the first test sample";
  EXPECT_EQ(few->label_of(7), set->label_of(50));
  fewer.limit_test = 4;
  const auto fewest = *disk.load(fewer);
  EXPECT_EQ(fewest->num_test, 4);
  EXPECT_EQ(features_of(*fewest, 10), features_of(*set, 53)) << "the fourth test sample";
  EXPECT_THAT(disk.why({.kind = "synthetic", .options = {{"classes", 0}}}), HasSubstr("classes: got 0"));
  EXPECT_THAT(disk.why({.kind = "synthetic", .options = {{"num_train", 0}}}), HasSubstr("got 0 to train"));
}

TEST(MakeDataset, SyntheticClassesCanBeToldApartByTheirCentres) {
  const auto set =
      *DataDisk().load({.kind = "synthetic",
                        .options = {{"shape", "200"}, {"classes", 3}, {"num_train", 300}, {"num_test", 60}}});
  std::vector<std::vector<double>> centre(3, std::vector<double>(200));
  double sum = 0, squares = 0;
  for (std::int64_t id = 0; id < 300; ++id) {
    const auto x = features_of(*set, id);
    for (std::size_t j = 0; j < 200; ++j) {
      centre[static_cast<std::size_t>(set->label_of(id))][j] += x[j] / 100.0;
      sum += x[j], squares += x[j] * x[j];
    }
  }
  EXPECT_NEAR(sum / 60000, 0, 0.05);
  EXPECT_NEAR(squares / 60000, 1.25, 0.05);
  int right = 0;
  for (std::int64_t id = 300; id < 360; ++id) {
    const auto x = features_of(*set, id);
    std::vector<double> distance(3);
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t j = 0; j < 200; ++j) distance[c] += (x[j] - centre[c][j]) * (x[j] - centre[c][j]);
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == set->label_of(id);
  }
  EXPECT_GE(right, 59);
}

TEST(SampleShape, IsReadFromText) {
  EXPECT_EQ(*parse_sample_shape("3x64x32"), (Shape{3, 64, 32}));
  EXPECT_EQ(*parse_sample_shape("7"), (Shape{7}));
  for (const char* bad :
       {"", "x", "3x", "x3", "0", "-1", "3 x 4", "3x4y", "1x1x1x1x1x1x1x1", "99999999999999999999"})
    EXPECT_THAT(parse_sample_shape(bad).status().message(), HasSubstr("shape: got")) << bad;
}

}  // namespace
}  // namespace trireme::data
