#include "trireme/data/standardise.h"

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(Standardise, TrainingRowsAloneSayMeanAndDeviation) {
  Dataset set;
  set.dtype = DType::kF32;
  set.sample_shape = {2};
  set.features = {1, 5, 3, 5, 100, 100};
  set.num_train = 2;
  set.num_test = 1;
  const Standard standard = measure_features(set);
  EXPECT_EQ(standard.mean, (std::vector<double>{2, 5}));
  EXPECT_EQ(standard.scale, (std::vector<double>{1, 1})) << "a value that never changes keeps its scale";
  standardise(standard, set.features);
  EXPECT_EQ(set.features, (std::vector<float>{-1, 0, 1, 0, 98, 95}));
}

TEST(Standardise, RowsAreFoundThroughTheTableOfRows) {
  Dataset set;
  set.dtype = DType::kF32;
  set.sample_shape = {1};
  set.features = {50, 2, 6};
  set.rows = {1, 2, 0};
  set.num_train = 2;
  set.num_test = 1;
  const Standard standard = measure_features(set);
  EXPECT_EQ(standard.mean, std::vector<double>{4});
  EXPECT_EQ(standard.scale, std::vector<double>{0.5});
}

}  // namespace
}  // namespace trireme::data
