// The six ops of op/comm as nodes of graphs that several ranks run at once.
#include "trireme/comm/host_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/exec/executor.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::comm {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Value;
using runtime::Task;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
using Values = std::vector<float>;

void on_both(const testing::Body& body) {
  testing::RankOptions options;
  options.world = kRanks;
  testing::run_on_threads(options, body);
  testing::expect_finished(testing::run_virtual(options, {}, body));
}

// Every op of the family. Ranks 0 and 1 send and receive; what a rank does not do is left out of its graph.
Graph all_six(int rank) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", DType::kF32, {kRanks, 2});
  const auto comm = [&](const op::OpDef& def, std::vector<Value> in, std::int64_t slot,
                        op::Attrs attrs = {}) {
    attrs.set("slot", slot);
    return b.add_node(def, std::move(in), std::move(attrs));
  };
  const op::Attrs world{{"world", std::int64_t{kRanks}}};
  b.output("allreduce", comm(op::kAllreduce, {x}, 1));
  b.output("broadcast", comm(op::kBroadcast, {x}, 2, {{"root", std::int64_t{1}}}));
  const Value piece = comm(op::kReduceScatter, {b.add(x, x)}, 3, world);
  b.output("reduce_scatter", piece);
  b.output("allgather", comm(op::kAllgather, {piece}, 4, world));
  if (rank == 0) b.output("send", comm(op::kSend, {piece}, 5, {{"peer", std::int64_t{1}}}));
  if (rank == 1)
    b.output("recv", comm(op::kRecv, {}, 5,
                          {{"peer", std::int64_t{0}},
                           {"dtype", DType::kF32},
                           {"shape", std::vector<std::int64_t>{1, 2}}}));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

// Rank r has 1, 2, 3, ... times 10^r.
Tensor input_of(int rank) {
  Values values;
  for (int i = 1; i <= 2 * kRanks; ++i)
    values.push_back(static_cast<float>(i * (rank == 0 ? 1 : rank == 1 ? 10 : 100)));
  return *testing::tensor_of(values).reshape({kRanks, 2});
}

Values fetched(const exec::Execution& e, const char* name) { return testing::values_of(*e.fetch(name)); }

TEST(HostOps, OfTheWholeFamilyRunInOneGraph) {
  on_both([](runtime::Runtime& rt, Group& group) -> Task<void> {
    const int rank = group.rank();
    const auto ops = make_host_ops(group);
    auto e = *exec::make_execution(rt, *exec::compile(all_six(rank), {}), {.host_ops = ops->table()});
    const Tensor x = input_of(rank);
    EXPECT_TRUE(e->feed("x", x).ok());
    for (std::uint64_t run = 0; run < 3; ++run) {
      const Status s = co_await e->run({.number = run});
      EXPECT_TRUE(s.ok()) << s.to_string();
      EXPECT_EQ(fetched(*e, "allreduce"), (Values{111, 222, 333, 444, 555, 666}));
      EXPECT_EQ(fetched(*e, "broadcast"), (Values{10, 20, 30, 40, 50, 60}));
      EXPECT_EQ(fetched(*e, "allgather"), (Values{222, 444, 666, 888, 1110, 1332}));
      const auto at = static_cast<float>(2 * rank + 1);
      EXPECT_EQ(fetched(*e, "reduce_scatter"), (Values{222 * at, 222 * (at + 1)}));
      if (rank == 0) {
        EXPECT_EQ(*e->fetch("send")->data<std::int64_t>(), 8);
      }
      if (rank == 1) {
        EXPECT_EQ(fetched(*e, "recv"), (Values{222, 444}));
      }
    }
    EXPECT_EQ(testing::values_of(x), testing::values_of(input_of(rank))) << "inputs stay as they are";
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(HostOps, OfShardsThatRunAtOnceInAnyOrderDoNotMix) {
  on_both([](runtime::Runtime& rt, Group& group) -> Task<void> {
    constexpr std::uint32_t kShards = 4;
    const int rank = group.rank();
    const auto ops = make_host_ops(group, kShards);
    const auto compiled = *exec::compile(all_six(rank), {});
    std::vector<std::unique_ptr<exec::Execution>> shards;
    for (std::uint32_t s = 0; s < kShards; ++s) {
      shards.push_back(*exec::make_execution(rt, compiled, {.host_ops = ops->table()}));
      const Tensor x = input_of(rank);
      for (float& v : x.values<float>()) v += static_cast<float>(s);
      EXPECT_TRUE(shards.back()->feed("x", x).ok());
    }
    for (std::uint64_t step = 5; step < 8; ++step) {
      std::vector<Task<Status>> running;
      for (std::uint32_t i = 0; i < kShards; ++i) {
        const std::uint32_t s = (i + static_cast<std::uint32_t>(rank)) % kShards;
        running.push_back(shards[s]->run({.number = step * kShards + s}));
      }
      EXPECT_TRUE((co_await runtime::when_all(rt, std::move(running))).ok());
      for (std::uint32_t s = 0; s < kShards; ++s) {
        EXPECT_EQ(fetched(*shards[s], "allreduce")[0], static_cast<float>(111 + kRanks * s));
        if (rank == 1) {
          EXPECT_EQ(fetched(*shards[s], "recv")[0], static_cast<float>(222 + 2 * kRanks * s));
        }
      }
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(HostOps, ACancelledRunFailsTheGroupAndNamesTheRankThatGaveUp) {
  on_both([](runtime::Runtime& rt, Group& group) -> Task<void> {
    const int rank = group.rank();
    Graph g;
    Builder b(g);
    b.output("y", b.add_node(op::kAllreduce, {b.input("x", DType::kF32, {2})}, {{"slot", std::int64_t{1}}}));
    const auto ops = make_host_ops(group);
    auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", testing::tensor_of({1, 2})).ok());
    if (rank != 0) {  // rank 0 never makes the call
      if (rank == 1) rt.post([&e] { e->cancel(Status(Code::kUnavailable, "[test] the disk is full")); });
      const Status ended = co_await e->run({.number = 4});
      EXPECT_EQ(ended.code(), rank == 1 ? Code::kUnavailable : Code::kInternal) << ended.to_string();
    }
    const Status left = co_await group.leave();
    EXPECT_EQ(left.context().peer, 1) << left.to_string();
    EXPECT_THAT(left.message(), HasSubstr("the disk is full"));
  });
}

TEST(HostOps, WithoutASlotAreRefused) {
  on_both([](runtime::Runtime& rt, Group& group) -> Task<void> {
    Graph g;
    Builder b(g);
    b.output("y",
             b.add_node(op::kAllreduce, {b.input("x", DType::kF32, {2})}, {{"label", std::string("sum")}}));
    const auto ops = make_host_ops(group);
    auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", testing::tensor_of({1, 2})).ok());
    EXPECT_EQ((co_await e->run()).code(), Code::kInvalid);
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(LoneHostOps, RunAGraphWithoutTheOtherRanks) {
  testing::RankOptions options;
  options.world = 1;
  testing::run_on_threads(options, [](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto ops = make_lone_host_ops(1);
    auto e = *exec::make_execution(rt, *exec::compile(all_six(1), {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", input_of(0)).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(fetched(*e, "allreduce"), (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(fetched(*e, "broadcast"), (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(fetched(*e, "reduce_scatter"), (Values{6, 8}));
    EXPECT_EQ(fetched(*e, "allgather"), (Values{6, 8, 6, 8, 6, 8}));
    EXPECT_EQ(fetched(*e, "recv"), (Values{1, 1}));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

}  // namespace
}  // namespace trireme::comm
