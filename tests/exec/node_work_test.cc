// Keys of nodes: all that their times depend on, and nothing else.
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "trireme/op/ops.h"

namespace trireme::exec {
namespace {

struct Node {
  std::int64_t rows = 8;
  double slope = 0.1;
  int threads = 1;
  std::string kernel = {};
  std::string scope = {};
};

cost::Work work_of(const Node& n) {
  Graph g;
  Builder b(g);
  const Value x = b.input(n.scope + "x", kF32, {n.rows, 16});
  const Value y = b.matmul(x, b.input("w", kF32, {16, 16}));
  b.output("y", b.add_node(op::kLeakyRelu, {y}, {{"slope", n.slope}}));
  CompileOptions options;
  options.width = n.threads;
  if (!n.kernel.empty()) options.kernels["matmul"] = n.kernel;
  const auto compiled = compile(g, std::move(options));
  if (!compiled.ok()) {
    ADD_FAILURE() << compiled.status().to_string();
    return {};
  }
  cost::Work work;
  for (std::int32_t s = 0; s < (*compiled)->num_strands(); ++s)
    for (const cost::NodeWork& node : (*compiled)->strand_work(s)) work.push_back(node);
  return work;
}

TEST(NodeWork, HasTheNodesThatRunKernels) {
  const cost::Work work = work_of({});
  ASSERT_EQ(work.size(), 2U) << "inputs run nothing";
  EXPECT_EQ(work[0].family, "matmul");
  EXPECT_EQ(work[0].cost.flops, 2.0 * 8 * 16 * 16);
  EXPECT_NE(work[0].key.find("f32[8, 16] f32[16, 16]"), std::string::npos) << work[0].key;
}

TEST(NodeWork, EqualNodesOfOtherGraphsHaveOneKey) {
  const cost::Work here = work_of({}), there = work_of({.scope = "other/"});
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].key, there[i].key);
}

TEST(NodeWork, AnythingElseIsAnotherKey) {
  const std::string key = work_of({})[1].key;
  EXPECT_NE(key, work_of({.rows = 9})[1].key);
  EXPECT_NE(key, work_of({.slope = 0.2})[1].key);
  EXPECT_NE(key, work_of({.threads = 2})[1].key);
  EXPECT_NE(work_of({})[0].key, work_of({.kernel = "reference"})[0].key);
}

TEST(NodeWork, HostOpsAreNotMeasured) {
  Graph g;
  Builder b(g);
  b.output("y", b.relu(host(b, b.relu(b.input("x", kF32, {4})), "late:1")));
  const auto compiled = *compile(g, {});
  ASSERT_EQ(compiled->num_strands(), 3);
  EXPECT_EQ(compiled->strand_work(0).size(), 1U);
  EXPECT_TRUE(compiled->strand_work(1).empty());
}

TEST(NodeWork, BoundOutputsAreKnownByTheTypesTheyAreBoundWith) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {4, 2}), y = b.relu(x);
  b.output("y", b.reshape(y, {8}));
  b.output("z", b.relu(y));
  const auto compiled = *compile(g, {.bound = {"y"}});
  ASSERT_EQ(compiled->bound_outputs().size(), 1U);
  EXPECT_EQ(compiled->bound_outputs()[0].first, "y");
  EXPECT_EQ(compiled->bound_outputs()[0].second, (TensorType{kF32, Shape{8}}));
}

}  // namespace
}  // namespace trireme::exec
