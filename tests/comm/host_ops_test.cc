#include "trireme/comm/host_ops.h"

#include <gtest/gtest.h>

#include "tests/comm/ranks.h"

namespace trireme::comm {
namespace {

graph::Node node_of(std::int64_t slot, std::int64_t root) {
  graph::Node node;
  node.name = "sync";
  node.attrs.set("slot", slot);
  node.attrs.set("label", std::string("gradients"));
  node.attrs.set("root", root);
  return node;
}

TEST(HostOps, SumAndBroadcastTheirInputIntoTheirOutput) {
  testing::RankOptions options;
  options.world = 3;
  const auto body = [](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const auto ops = make_host_ops(group);
    const exec::HostOps table = ops->table();
    const graph::Node node = node_of(2, 1);
    const std::vector<Tensor> in{
        testing::tensor_of(std::vector<float>(5, static_cast<float>(group.rank() + 1)))};
    const std::vector<Tensor> out{testing::tensor_of(std::vector<float>(5))};
    ops->set_step(1);
    EXPECT_TRUE((co_await table.at("allreduce")->start(node, in, out)).ok());
    EXPECT_EQ(testing::values_of(out[0]), std::vector<float>(5, 6));
    ops->set_step(2);
    EXPECT_TRUE((co_await table.at("broadcast")->start(node, in, out)).ok());
    EXPECT_EQ(testing::values_of(out[0]), std::vector<float>(5, 2));
    EXPECT_EQ(testing::values_of(in[0]), std::vector<float>(5, static_cast<float>(group.rank() + 1)));
    const graph::Node unplanned = node_of(-1, 0);
    EXPECT_EQ((co_await table.at("allreduce")->start(unplanned, in, out)).code(), Code::kInvalid);
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  testing::expect_finished(testing::run_virtual(options, {}, body));
}

}  // namespace
}  // namespace trireme::comm
