// Collectives of a position's graph, as schedules: what they send and what they cost.
#include "trireme/parallel/shard/axis_collective.h"

#include <gtest/gtest.h>

#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

// Images [2, 3, own rows of 10, 5] of position 0 with `before` and `after` rows of its neighbors.
AxisCollective halo(std::vector<std::int64_t> sizes, std::int64_t before, std::int64_t after) {
  graph::Graph g;
  std::vector<std::int64_t> begins, ends;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    begins.push_back(at - before);
    ends.push_back((at += size) + after);
  }
  const auto parts = static_cast<int>(sizes.size());
  const auto in = *g.add(op::kVariable, {},
                         {{"name", std::string("x")},
                          {"dtype", DType::kF32},
                          {"shape", std::vector<std::int64_t>{2, 3, sizes[0], 5}}});
  const auto out = *g.add(op::kHaloExchange, {in},
                          {{"world", std::int64_t{parts}},
                           {"axis", std::string("model")},
                           {"dim", std::int64_t{2}},
                           {"sizes", sizes},
                           {"begins", begins},
                           {"ends", ends},
                           {"extent", ends[0] - begins[0]}});
  EXPECT_TRUE(is_collective_along(g.node(out.node), "model"));
  EXPECT_FALSE(is_collective_along(g.node(out.node), "data"));
  return collective_of(g, g.node(out.node), parts);
}

constexpr double kRow = 2 * 3 * 5 * 4;  // bytes

TEST(AxisCollective, AHaloSendsItsRowsToNeighborsAndNothingElse) {
  const AxisCollective c = halo({4, 3, 3}, 2, 1);
  EXPECT_EQ(bytes_sent(c, 0), 2 * kRow) << "what the next one wants before its own";
  EXPECT_EQ(bytes_sent(c, 1), (1 + 2) * kRow);
  EXPECT_EQ(bytes_sent(c, 2), 1 * kRow);
  EXPECT_EQ(cost_of(c, {}).bytes, 3 * kRow) << "of the busiest";
}

TEST(AxisCollective, AHaloThatReachesBeyondNeighborsGoesToAllOfThem) {
  const AxisCollective c = halo({1, 1, 1, 1}, 2, 0);
  EXPECT_EQ(bytes_sent(c, 0), 2 * kRow);
  EXPECT_EQ(bytes_sent(c, 3), 0);
}

TEST(AxisCollective, AHaloCostsAsMuchAsItSends) {
  const AxisCollective none = halo({4, 4}, 0, 0);
  EXPECT_EQ(cost_of(none, {}).seconds, 0);
  AxisCosts costs;
  costs.comm.link = {.latency_ns = 0, .bytes_per_second = 1e6, .message_overhead_ns = 0};
  EXPECT_NEAR(cost_of(halo({40, 40}, 1, 0), costs).seconds, kRow / 1e6, 1e-9);
  EXPECT_NEAR(cost_of(halo({400, 400}, 1, 0), costs).seconds, kRow / 1e6, 1e-9)
      << "however large the part is";
}

}  // namespace
}  // namespace trireme::parallel
