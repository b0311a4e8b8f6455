// Where a training graph is cut on a GPU.
#include "trireme/prepare/bucket_notices.h"

#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::prepare {
namespace {

// Two layers: the weight of the second is read once more, for the gradient of its input, after its own
// gradient is there.
graph::Graph two_layers() {
  graph::Graph g;
  graph::Builder b(g);
  const auto mul = [&](graph::Value left, graph::Value right) { return b.add_node(op::kMul, {left, right}); };
  const graph::Value x = b.input("x", DType::kF32, {4}), w1 = b.variable("w1", DType::kF32, {4}),
                     w2 = b.variable("w2", DType::kF32, {4}), bias = b.variable("bias", DType::kF32, {4});
  const graph::Value y = mul(mul(x, w1), bias), z = mul(y, w2);
  b.output("loss", z);
  b.output("correct", y);
  b.output("grad:w2", mul(z, y));
  const graph::Value back = mul(z, w2);
  b.output("grad:bias", mul(back, x));
  b.output("grad:w1", mul(mul(back, bias), x));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

TEST(BucketNotices, AreOnePerBucketAtItsLastOutputAndItsLastReadParameter) {
  plan::Plan plan;
  plan.buckets.resize(2);
  plan.buckets[0].parameters = {"w2"};
  plan.buckets[1].parameters = {"w1", "bias"};
  const std::vector<exec::Notice> notices = bucket_notices(two_layers(), plan);
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].output, "grad:w2");
  EXPECT_EQ(notices[0].variable, "w2");
  EXPECT_EQ(notices[1].output, "grad:w1");
  EXPECT_EQ(notices[1].variable, "bias");
}

TEST(BucketNotices, TheLastBucketHasTheMetrics) {
  plan::Plan plan;
  plan.buckets.resize(1);
  const std::vector<exec::Notice> notices = bucket_notices(two_layers(), plan);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].output, "loss");
  EXPECT_EQ(notices[0].variable, "");
}

}  // namespace
}  // namespace trireme::prepare
