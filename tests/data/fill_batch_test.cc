// Batches of every kind of sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "trireme/data/dataset.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

Dataset colours() {
  Dataset set;
  set.name = "colours";
  set.sample_shape = {2, 1, 2};
  set.num_classes = 3;
  set.num_train = 2;
  set.pixels = {1, 2, 3, 4, 10, 20, 30, 40};
  set.labels = {2, 0};
  set.channel_mean = {1, 2};
  set.channel_scale = {1, 10};
  return set;
}

Dataset letters(std::int64_t stride) {
  Dataset set;
  set.name = "letters";
  set.dtype = DType::kI32;
  set.label_kind = Labels::kNext;
  set.sample_shape = {3};
  set.num_classes = 20;
  set.stream.tokens.resize(20);
  std::iota(set.stream.tokens.begin(), set.stream.tokens.end(), std::uint16_t{0});
  set.stream.train_tokens = 12;
  set.stream.context = 3;
  set.stream.stride = stride;
  set.num_train = set.stream.num_train_rows();
  set.num_test = set.stream.num_held_out_rows();
  return set;
}

struct Filled {
  Floats features, weights;
  Ints tokens, labels;
};
Filled fill(const Dataset& set, std::vector<std::int64_t> ids, FillOptions options = {}) {
  Filled f;
  const auto n = ids.size(), elems = n * static_cast<std::size_t>(set.sample_elems());
  if (set.dtype == DType::kI32)
    f.tokens.assign(elems, 77);
  else
    f.features.assign(elems, 77);
  f.labels.assign(n * static_cast<std::size_t>(set.label_elems()), 77);
  f.weights.assign(n, 77);
  fill_batch(set, ids, options, {f.features, f.tokens, f.labels, f.weights});
  return f;
}

TEST(FillBatch, NormalisesEachChannelByItsOwnNumbers) {
  const Dataset set = colours();
  ASSERT_TRUE(check_dataset(set).ok()) << check_dataset(set).to_string();
  const Filled f = fill(set, {1, -1, 0}, {.weight = 0.5F});
  EXPECT_EQ(f.features, (Floats{9, 19, 280, 380, 0, 0, 0, 0, 0, 1, 10, 20}));
  EXPECT_EQ(f.labels, (Ints{0, 0, 2}));
  EXPECT_EQ(f.weights, (Floats{0.5, 0, 0.5}));
}

TEST(FillBatch, TakesStoredFeaturesAsTheyAre) {
  Dataset set;
  set.dtype = DType::kF32;
  set.sample_shape = {2};
  set.features = {1.5, -2, 3, 4};
  set.labels = {1, 0};
  set.num_train = 2;
  set.mean = 100;  // of bytes only
  ASSERT_TRUE(check_dataset(set).ok());
  EXPECT_EQ(fill(set, {0, 1}).features, (Floats{1.5, -2, 3, 4}));
}

TEST(FillBatch, DrawsGeneratedFeaturesByRow) {
  Dataset set;
  set.dtype = DType::kF32;
  set.label_kind = Labels::kNone;
  set.sample_shape = {1, 1, 2};
  set.num_train = 3;
  set.rows = {2, 0, 1};
  set.generate = [](std::int64_t row, std::span<float> out) {
    out[0] = static_cast<float>(row);
    out[1] = -1;
  };
  ASSERT_TRUE(check_dataset(set).ok());
  EXPECT_EQ(fill(set, {0, 2}).features, (Floats{2, -1, 1, -1}));
  set.augment.flip = true;
  std::set<Floats> seen;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    seen.insert(fill(set, {0}, {.augment = true, .epoch = epoch}).features);
  EXPECT_EQ(seen, (std::set<Floats>{{2, -1}, {-1, 2}}));
}

TEST(FillBatch, SamplesWithoutLabelsLeaveThemZeroOrUnasked) {
  Dataset set = colours();
  set.label_kind = Labels::kNone;
  set.labels.clear();
  ASSERT_TRUE(check_dataset(set).ok());
  EXPECT_EQ(fill(set, {1}).labels, (Ints{0}));
  Floats features(4), weights(1);
  const std::vector<std::int64_t> ids = {0};
  fill_batch(set, ids, {}, {features, {}, {}, weights});
  EXPECT_EQ(weights, (Floats{1}));
}

TEST(FillBatch, WindowsGiveEachTokenTheOneAfterIt) {
  const Dataset set = letters(4);
  ASSERT_TRUE(check_dataset(set).ok()) << check_dataset(set).to_string();
  EXPECT_EQ(set.num_train, 3);  // at 0, 4, 8: the last one's targets end at token 11
  EXPECT_EQ(set.num_test, 2);   // at 12 and 15, not overlapping
  const Filled f = fill(set, {2, -1, 3, 4});
  EXPECT_EQ(f.tokens, (Ints{8, 9, 10, 0, 0, 0, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(f.labels, (Ints{9, 10, 11, 0, 0, 0, 13, 14, 15, 16, 17, 18}));
}

TEST(FillBatch, TrainingWindowsMoveWithTheEpochAndNeverReachWhatIsHeldOut) {
  const Dataset set = letters(4);
  std::set<std::int32_t> starts;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const Filled f = fill(set, {0, 2, 3}, {.augment = true, .seed = 1, .epoch = epoch});
    starts.insert(f.tokens[0]);
    EXPECT_EQ(f.labels[0], f.tokens[0] + 1);
    EXPECT_EQ(f.tokens[3], 8) << "no room to move";
    EXPECT_EQ(f.tokens[6], 12) << "held-out windows stay";
  }
  EXPECT_EQ(starts, (std::set<std::int32_t>{0, 1, 2, 3}));
}

TEST(FillBatch, AugmentsPicturesOnlyWhenAskedTo) {
  Dataset set = colours();
  set.augment.flip = true;
  bool mirrored = false;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    EXPECT_EQ(fill(set, {0}, {.epoch = epoch}).features, (Floats{0, 1, 10, 20}));
    mirrored |= fill(set, {0}, {.augment = true, .epoch = epoch}).features == Floats{1, 0, 20, 10};
  }
  EXPECT_TRUE(mirrored);
}

TEST(CheckDataset, SaysWhatDoesNotFit) {
  const auto broken = [](auto&& breaks) {
    Dataset set = colours();
    breaks(set);
    return check_dataset(set).message();
  };
  EXPECT_THAT(broken([](Dataset& s) { s.num_train = 0; }), HasSubstr("no training samples"));
  EXPECT_THAT(broken([](Dataset& s) { s.labels[1] = 3; }),
              HasSubstr("sample 1 has label 3, expected 0 to 2"));
  EXPECT_THAT(broken([](Dataset& s) { s.labels.pop_back(); }), HasSubstr("1 labels for 2"));
  EXPECT_THAT(broken([](Dataset& s) { s.num_test = 1; }), HasSubstr("3 samples, but 2 rows"));
  EXPECT_THAT(broken([](Dataset& s) { s.rows = {0, 5}; }), HasSubstr("row 5 of 2"));
  EXPECT_THAT(broken([](Dataset& s) { s.pixels.resize(s.pixels.size() - 1); }),
              HasSubstr("not whole samples"));
  EXPECT_THAT(broken([](Dataset& s) { s.channel_mean.pop_back(); }), HasSubstr("normalisation"));
  EXPECT_THAT(broken([](Dataset& s) { s.class_names = {"a"}; }), HasSubstr("1 class names for 3"));
  EXPECT_THAT(broken([](Dataset& s) { s.augment.shift = 9; }), HasSubstr("shift"));
  Dataset text = letters(4);
  text.num_classes = 19;
  EXPECT_THAT(check_dataset(text).message(), HasSubstr("token 19 of 19"));
}

}  // namespace
}  // namespace trireme::data
