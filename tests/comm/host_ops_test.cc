// Ops of op/comm as nodes of graphs that several ranks run at once.
#include "trireme/comm/host_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

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

// What is at (i, j, k) of a whole of [2, n, 3].
double whole_at(std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<double>(1000 * i + 10 * j + k);
}

// Columns [first, first + count) of it, times `factor`.
Tensor columns(std::int64_t first, std::int64_t count, double factor = 1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = first; j < first + count; ++j)
      for (std::int64_t k = 0; k < 3; ++k) values.push_back(factor * whole_at(i, j, k));
  return Tensor::from<double>(values, {2, count, 3});
}

// Gathers "piece" of [2, own, 3] and scatters "whole" of [2, total, 3].
Graph pieces_graph(const std::vector<std::int64_t>& sizes, std::int64_t world, std::int64_t own,
                   std::int64_t total) {
  Graph g;
  Builder b(g);
  op::Attrs attrs{{"world", world}, {"dim", std::int64_t{1}}, {"sizes", sizes}, {"slot", std::int64_t{1}}};
  const Value piece = b.input("piece", DType::kF64, {2, own, 3}),
              whole = b.input("whole", DType::kF64, {2, total, 3});
  b.output("gathered", b.add_node(op::kAllgather, {piece}, attrs));
  attrs.set("slot", std::int64_t{2});
  if (!sizes.empty()) attrs.set("extent", own);
  b.output("scattered", b.add_node(op::kReduceScatter, {whole}, attrs));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

// The ranks' pieces of 6 columns each, or of as many as `sizes` say, gathered; a multiple of the whole
// scattered.
Task<void> gather_and_scatter(runtime::Runtime& rt, Group& group, std::vector<std::int64_t> sizes) {
  const int rank = group.rank(), world = group.world();
  std::int64_t first = 0, total = 0, own = 6;
  for (int r = 0; r < world; ++r) {
    const std::int64_t size = sizes.empty() ? 6 : sizes[static_cast<std::size_t>(r)];
    if (r == rank) first = total, own = size;
    total += size;
  }
  const Graph g = pieces_graph(sizes, world, own, total);
  const auto ops = make_host_ops(group);
  auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
  EXPECT_TRUE(e->feed("piece", columns(first, own)).ok());
  EXPECT_TRUE(e->feed("whole", columns(0, total, rank + 1)).ok());
  const auto values = [&e](const char* name) {
    const Tensor t = *e->fetch(name);
    const auto v = t.values<double>();
    return std::vector<double>(v.begin(), v.end());
  };
  const auto expected = [](const Tensor& t) {
    const auto v = t.values<double>();
    return std::vector<double>(v.begin(), v.end());
  };
  for (std::uint64_t run = 0; run < 2; ++run) {
    const Status s = co_await e->run({.number = run});
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_EQ(values("gathered"), expected(columns(0, total)));
    double factors = 0;  // of all ranks
    for (int r = 0; r < world; ++r) factors += r + 1;
    EXPECT_EQ(values("scattered"), expected(columns(first, own, factors)));
  }
}

TEST(HostOps, GatherAndScatterAlongAnyDimensionInPiecesOfAnySize) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{}, {4, 1, 2, 2}, {0, 5, 0, 3}, {0, 0, 0, 0}})
    for (int world = 1; world <= 4; ++world) {
      const testing::Body body = [&](runtime::Runtime& rt, Group& group) -> Task<void> {
        std::vector<std::int64_t> own = sizes;
        if (!own.empty()) own.resize(static_cast<std::size_t>(group.world()));
        co_await gather_and_scatter(rt, group, std::move(own));
        EXPECT_TRUE((co_await group.leave()).ok());
      };
      testing::RankOptions options;
      options.world = world;
      testing::run_on_threads(options, body);
      testing::expect_finished(testing::run_virtual(options, {}, body));
    }
}

TEST(HostOps, GatherAndScatterAmongSomeRanksInTheirOwnOrder) {
  const std::vector<std::int64_t> sizes{1, 4};
  const std::vector<int> ranks{2, 0};
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    if (group.rank() != 1) {
      auto sub = *group.subgroup(ranks, 7);
      co_await gather_and_scatter(rt, *sub, sizes);
      EXPECT_TRUE((co_await sub->leave()).ok());
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

// Gathers a piece of 9.
Graph gather_nine(const std::vector<std::int64_t>& sizes) {
  Graph g;
  Builder b(g);
  const auto world = static_cast<std::int64_t>(sizes.size());
  b.output("y", b.add_node(op::kAllgather, {b.input("x", DType::kF32, {9})},
                           {{"world", world}, {"sizes", sizes}, {"slot", std::int64_t{1}}}));
  return g;
}

TEST(HostOps, RefusePiecesOfAnotherRankOrWorld) {
  const Graph four = gather_nine({1, 1, 9, 9}), three = gather_nine({1, 1, 9});
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto ops = make_host_ops(group);
    std::unique_ptr<exec::Execution> e;
    const auto run = [&](const Graph& g) {
      e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
      EXPECT_TRUE(e->feed("x", testing::tensor_of(Values(9))).ok());
      return e->run();
    };
    Status refused = co_await run(four);
    EXPECT_THAT(refused.message(), HasSubstr("is for 4 ranks: the group has 3"));
    if (group.rank() < 2) {  // rank 2 would wait for the others
      refused = co_await run(three);
      EXPECT_THAT(refused.message(), HasSubstr("has a piece of another rank: got extent 9 in dimension 0, "
                                               "expected 1 on rank"));
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

Graph one_exchange(const op::OpDef& def, op::Attrs attrs) {
  Graph g;
  Builder b(g);
  attrs.set("slot", std::int64_t{1});
  b.output("y", b.add_node(def, {b.input("x", DType::kF32, {2, 3})}, std::move(attrs)));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

TEST(HostOps, ReduceByMaximum) {
  const Graph g = one_exchange(op::kAllreduce, {{"reduction", std::string("max")}});
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto ops = make_host_ops(group);
    auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
    const auto rank = static_cast<float>(group.rank());
    EXPECT_TRUE(e->feed("x", *testing::tensor_of({rank, -rank, 1, 2, 3, 4}).reshape({2, 3})).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(fetched(*e, "y"), (Values{2, 0, 1, 2, 3, 4}));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(HostOps, AlongAnAxisThatIsNotThereAreRefusedByName) {
  const Graph along = one_exchange(op::kAllreduce, {{"axis", std::string("model")}});
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto compiled = *exec::compile(along, {});
    for (const auto& ops : {make_host_ops(group), make_lone_host_ops(0)}) {
      auto e = *exec::make_execution(rt, compiled, {.host_ops = ops->table()});
      EXPECT_TRUE(e->feed("x", *testing::tensor_of(Values(6)).reshape({2, 3})).ok());
      EXPECT_THAT((co_await e->run()).message(), HasSubstr("is an exchange along axis 'model'"));
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(HostOps, AlongAnAxisAreAmongItsRanks) {
  const Graph all = one_exchange(op::kAllreduce, {});
  const Graph along = one_exchange(op::kAllreduce, {{"axis", std::string("model")}});
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    // Ranks 2 and 0 lie along the axis, in that order; rank 1 is alone on it.
    const std::vector<int> ranks = group.rank() == 1 ? std::vector<int>{1} : std::vector<int>{2, 0};
    const auto axis = *group.subgroup(ranks, static_cast<std::uint16_t>(group.rank() == 1 ? 8 : 7));
    const auto ops = make_host_ops(group, 1, {{"model", axis.get()}});
    for (const bool whole : {true, false}) {
      auto e = *exec::make_execution(rt, *exec::compile(whole ? all : along, {}), {.host_ops = ops->table()});
      EXPECT_TRUE(e->feed("x", *testing::tensor_of(Values(6, 1.0F)).reshape({2, 3})).ok());
      const Status s = co_await e->run({.number = whole ? 1U : 2U});
      EXPECT_TRUE(s.ok()) << s.to_string();
      EXPECT_EQ(fetched(*e, "y"), Values(6, whole ? 3.0F : group.rank() == 1 ? 1.0F : 2.0F));
    }
    EXPECT_TRUE((co_await axis->leave()).ok());
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

using Ints = std::vector<std::int64_t>;

std::int64_t start_of(const Ints& sizes, int rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
}

float value_at(std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<float>(100 * i + 50 * j + k);
}

// What is at (i, j, k) of a whole of [rows, 2, columns].
Tensor block(std::int64_t i0, std::int64_t rows, std::int64_t k0, std::int64_t columns) {
  Values values;
  for (std::int64_t i = i0; i < i0 + rows; ++i)
    for (std::int64_t j = 0; j < 2; ++j)
      for (std::int64_t k = k0; k < k0 + columns; ++k) values.push_back(value_at(i, j, k));
  return *testing::tensor_of(values).reshape({rows, 2, columns});
}

// Rows cut by `from` become columns cut by `to`.
Task<void> turn(runtime::Runtime& rt, Group& group, Ints from, Ints to, bool equal) {
  const int rank = group.rank();
  const auto me = static_cast<std::size_t>(rank);
  const std::int64_t rows = start_of(from, group.world()), columns = start_of(to, group.world());
  Graph g;
  Builder b(g);
  op::Attrs attrs{{"world", std::int64_t{group.world()}},
                  {"from", std::int64_t{0}},
                  {"to", std::int64_t{-1}},
                  {"slot", std::int64_t{1}}};
  if (!equal) {
    attrs.set("sizes_from", from);
    attrs.set("sizes_to", to);
    attrs.set("extent", to[me]);
  }
  b.output("y", b.add_node(op::kAllToAll, {b.input("x", DType::kF32, {from[me], 2, columns})}, attrs));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  const auto ops = make_host_ops(group);
  auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
  EXPECT_TRUE(e->feed("x", block(start_of(from, rank), from[me], 0, columns)).ok());
  for (std::uint64_t run = 0; run < 2; ++run) {
    const Status s = co_await e->run({.number = run});
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_EQ(fetched(*e, "y"), testing::values_of(block(0, rows, start_of(to, rank), to[me])));
  }
}

TEST(HostOps, TurnACutOfOneDimensionIntoACutOfAnother) {
  struct Sizes {
    Ints from, to;
    bool equal = false;
  };
  for (const Sizes& sizes : {Sizes{{2, 2, 2}, {1, 1, 1}, true}, Sizes{{3, 1, 2}, {1, 4, 2}},
                             Sizes{{3, 0, 2}, {0, 4, 2}}, Sizes{{0, 0, 5}, {2, 0, 0}}})
    on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
      co_await turn(rt, group, sizes.from, sizes.to, sizes.equal);
      EXPECT_TRUE((co_await group.leave()).ok());
    });
}

// Columns cut by `sizes`; each rank gets those of its window, and `fill` beyond the whole.
Task<void> look_around(runtime::Runtime& rt, Group& group, Ints sizes, Ints begins, Ints ends, bool equal) {
  const int rank = group.rank();
  const auto me = static_cast<std::size_t>(rank);
  const std::int64_t columns = start_of(sizes, group.world()), window = ends[me] - begins[me];
  Graph g;
  Builder b(g);
  op::Attrs attrs{{"world", std::int64_t{group.world()}},
                  {"dim", std::int64_t{2}},
                  {"begins", begins},
                  {"ends", ends},
                  {"extent", window},
                  {"fill", -7.0},
                  {"slot", std::int64_t{1}}};
  if (!equal) attrs.set("sizes", sizes);
  b.output("y", b.add_node(op::kHaloExchange, {b.input("x", DType::kF32, {3, 2, sizes[me]})}, attrs));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  Values expected;
  for (std::int64_t row = 0; row < 6; ++row)
    for (std::int64_t k = begins[me]; k < ends[me]; ++k)
      expected.push_back(k < 0 || k >= columns ? -7.0F : value_at(row / 2, row % 2, k));
  const auto ops = make_host_ops(group);
  auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
  EXPECT_TRUE(e->feed("x", block(0, 3, start_of(sizes, rank), sizes[me])).ok());
  for (std::uint64_t run = 0; run < 2; ++run) {
    const Status s = co_await e->run({.number = run});
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_EQ(fetched(*e, "y"), expected);
  }
}

TEST(HostOps, BringTheNeighborsThatAWindowReaches) {
  struct Windows {
    Ints sizes, begins, ends;
    bool equal = false;
  };
  for (const Windows& w : {Windows{{3, 3, 3}, {-1, 2, 5}, {4, 7, 10}, true},   // a neighbor on each side
                           Windows{{3, 2, 1}, {-2, 1, 2}, {6, 6, 8}},          // beyond the next one
                           Windows{{3, 2, 1}, {0, 3, 5}, {3, 5, 6}},           // nothing to bring
                           Windows{{4, 0, 2}, {1, 2, 4}, {4, 5, 5}},           // nothing to give, and less
                           Windows{{2, 2, 2}, {5, 0, -3}, {6, 0, -1}, true}})  // another's, none, outside
    on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
      co_await look_around(rt, group, w.sizes, w.begins, w.ends, w.equal);
      EXPECT_TRUE((co_await group.leave()).ok());
    });
}

TEST(HostOps, OfAWindowOfAnotherRankAreRefused) {
  EXPECT_TRUE(has_host_op("halo_exchange"));
  const Graph wrong = one_exchange(op::kHaloExchange, {{"world", std::int64_t{3}},
                                                       {"dim", std::int64_t{1}},
                                                       {"begins", Ints{0, 0, 0}},
                                                       {"ends", Ints{4, 5, 5}},
                                                       {"extent", std::int64_t{4}}});
  on_both([&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto ops = make_host_ops(group);
    auto e = *exec::make_execution(rt, *exec::compile(wrong, {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", *testing::tensor_of(Values(6)).reshape({2, 3})).ok());
    if (group.rank() != 0) {  // rank 0's window is its own, and it would wait for the others
      EXPECT_THAT((co_await e->run()).message(), HasSubstr("has the window of another rank: got extent 4"));
    }
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

Graph uneven_columns() {
  Graph g;
  Builder b(g);
  const op::Attrs attrs{
      {"world", std::int64_t{2}}, {"dim", std::int64_t{1}}, {"sizes", std::vector<std::int64_t>{1, 3}}};
  const auto with = [&attrs](std::int64_t slot, std::int64_t extent) {
    op::Attrs all = attrs;
    all.set("slot", slot);
    if (extent >= 0) all.set("extent", extent);
    return all;
  };
  const Value x = b.input("x", DType::kF32, {2, 3});
  const Value all = b.add_node(op::kAllgather, {x}, with(1, -1));
  b.output("gathered", all);
  b.output("scattered", b.add_node(op::kReduceScatter, {all}, with(2, 3)));
  return g;
}

TEST(LoneHostOps, GatherAndScatterByDimensionAndSize) {
  testing::RankOptions options;
  options.world = 1;
  testing::run_on_threads(options, [](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Graph g = uneven_columns();
    const auto ops = make_lone_host_ops(1);
    auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", *testing::tensor_of({1, 2, 3, 4, 5, 6}).reshape({2, 3})).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(fetched(*e, "gathered"), (Values{1, 1, 2, 3, 4, 4, 5, 6}));
    EXPECT_EQ(fetched(*e, "scattered"), (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(LoneHostOps, TurnAndLookAroundWithWhatTheRankHas) {
  testing::RankOptions options;
  options.world = 1;
  Graph g;
  Builder b(g);
  const Value x = b.input("x", DType::kF32, {2, 3});
  op::Attrs attrs{{"world", std::int64_t{3}},
                  {"slot", std::int64_t{1}},
                  {"axis", std::string("model")},
                  {"from", std::int64_t{0}},
                  {"to", std::int64_t{1}}};
  b.output("turned", b.add_node(op::kAllToAll, {x}, attrs));
  b.output("window", b.add_node(op::kHaloExchange, {x},
                                {{"world", std::int64_t{3}},
                                 {"slot", std::int64_t{2}},
                                 {"axis", std::string("model")},
                                 {"dim", std::int64_t{1}},
                                 {"begins", Ints{0, 2, 5}},
                                 {"ends", Ints{4, 5, 9}},
                                 {"extent", std::int64_t{3}}}));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const auto ops = make_lone_host_ops(0, {{"model", 1}});
    auto e = *exec::make_execution(rt, *exec::compile(g, {}), {.host_ops = ops->table()});
    EXPECT_TRUE(e->feed("x", *testing::tensor_of({1, 2, 3, 4, 5, 6}).reshape({2, 3})).ok());
    const Status s = co_await e->run();
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_EQ(fetched(*e, "turned"), (Values{2, 5, 2, 5, 2, 5}));
    EXPECT_EQ(fetched(*e, "window"),
              (Values{1, 1, 2, 1, 4, 5}));  // columns 2, 3 and 4, of which it has 3 to 5
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

}  // namespace
}  // namespace trireme::comm
