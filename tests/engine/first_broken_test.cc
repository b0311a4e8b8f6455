// The search for the first broken tensor in graphs with collectives, which one rank runs by itself.
#include "trireme/engine/first_broken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/host_ops.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::engine {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Value;
using ::testing::HasSubstr;

// All six ops of op/comm between a variable and the loss; `log` of what is behind them breaks at 0.
Graph graph_with_collectives() {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", DType::kF32, {2, 2});
  const auto comm = [&](const op::OpDef& def, std::vector<Value> in, std::int64_t slot, op::Attrs attrs) {
    attrs.set("slot", slot);
    return b.add_node(def, std::move(in), std::move(attrs));
  };
  const op::Attrs world{{"world", std::int64_t{2}}}, peer{{"peer", std::int64_t{1}}};
  Value x = comm(op::kAllreduce, {w}, 1, {});
  x = comm(op::kBroadcast, {x}, 2, {});
  x = comm(op::kReduceScatter, {x}, 3, world);
  x = comm(op::kAllgather, {x}, 4, world);
  op::Attrs received = peer;
  received.set("dtype", DType::kF32);
  received.set("shape", std::vector<std::int64_t>{2, 2});
  x = b.mul(x, comm(op::kRecv, {}, 5, received));
  b.output("token", comm(op::kSend, {x}, 6, peer));
  b.output("loss", b.sum(b.add_node(op::kLog, {x}, {})));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

std::string first_broken(float weight) {
  std::string found = "nothing was looked at";
  auto rt = runtime::make_real_runtime({});
  const auto body = [&]() -> runtime::Task<void> {
    exec::Variables variables;
    const std::vector<float> values(4, weight);
    EXPECT_TRUE(variables.add("w", Tensor::from<float>(values, {2, 2})).ok());
    const auto alone = comm::make_lone_host_ops(0);
    prepare::BatchTensors batch;
    batch.x = Tensor::from<float>(std::vector<float>{1}, {1});
    const model::ModelInput input;
    const RunAgain again{.host_ops = alone->table()};
    const auto result =
        co_await find_first_broken(*rt, graph_with_collectives(), variables, input, batch, again);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    if (result.ok()) found = *result;
  };
  rt->run(body());
  return found;
}

TEST(FirstBroken, IsFoundBehindCollectivesThatNobodyElseRuns) {
  EXPECT_EQ(first_broken(3), "");
  EXPECT_THAT(first_broken(0), HasSubstr("(log), though what it reads is finite"));
}

}  // namespace
}  // namespace trireme::engine
