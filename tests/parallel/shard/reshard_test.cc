// Ways between layouts.
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/parallel/shard/reshard.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using Steps = std::vector<ReshardStep>;

Steps steps(const AxisCut& from, const AxisCut& to, DType dtype = DType::kF32) {
  const ReshardPath path = path_of(from, to, dtype);
  EXPECT_TRUE(path.is_possible) << from.to_text() << " to " << to.to_text();
  return path.steps;
}

TEST(Reshard, TakesTheCollectiveOfTheTable) {
  const AxisCut whole(op::kReplicate), sum(op::kPartial), most(op::kPartialMax);
  EXPECT_EQ(steps(whole, whole), Steps());
  EXPECT_EQ(steps(1, 1), Steps());
  EXPECT_EQ(steps(whole, 1), Steps{ReshardStep::kTakePart});
  EXPECT_EQ(steps(0, whole), Steps{ReshardStep::kAllgather});
  EXPECT_EQ(steps(0, 1), Steps{ReshardStep::kAllToAll});
  EXPECT_EQ(steps(sum, whole), Steps{ReshardStep::kAllreduce});
  EXPECT_EQ(steps(sum, 0), Steps{ReshardStep::kReduceScatter});
  EXPECT_EQ(steps(most, whole), Steps{ReshardStep::kAllreduceMax});
  const Steps anew{ReshardStep::kAllgather, ReshardStep::kTakePart};
  EXPECT_EQ(steps(1, AxisCut(1, 3)), anew);
  EXPECT_EQ(steps(AxisCut(1, 1, 4), 0), anew);
}

TEST(Reshard, DoesNotMakePartialValuesNorReduceThoseOf16Bits) {
  const AxisCut whole(op::kReplicate), sum(op::kPartial);
  EXPECT_FALSE(path_of(whole, sum, DType::kF32).is_possible);
  EXPECT_FALSE(path_of(0, sum, DType::kF32).is_possible);
  EXPECT_FALSE(path_of(sum, whole, DType::kBF16).is_possible);
  EXPECT_FALSE(path_of(sum, 0, DType::kF16).is_possible);
  EXPECT_TRUE(std::isinf(reshard_seconds(sum, whole, {DType::kBF16, {8}}, 2, {})));
}

TEST(Reshard, CostsWhatItsCollectiveCosts) {
  const TensorType type{DType::kF32, {1024, 1024}};
  const double gather = cost_of(ReshardStep::kAllgather, type, 4, {}).bytes;
  EXPECT_EQ(gather, 3 * 4.0 * 1024 * 1024 / 4);
  EXPECT_LT(cost_of(ReshardStep::kAllToAll, type, 4, {}).bytes, gather);
  EXPECT_EQ(cost_of(ReshardStep::kTakePart, type, 4, {}).bytes, 0);
  EXPECT_GT(reshard_seconds(op::kPartial, op::kReplicate, type, 4, {}),
            reshard_seconds(op::kPartial, 0, type, 4, {}));
}

}  // namespace
}  // namespace trireme::parallel
