#include "trireme/exec/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/runtime/sync.h"

namespace trireme::exec {
namespace {

using graph::bits;
using ::testing::AllOf;
using ::testing::HasSubstr;

// hidden = relu(x w), y = hidden + hidden; step: w -= 0.5 y; start: w = x.
std::shared_ptr<const Graph> program() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2}), unused = b.input("unused", kF32, {2});
  const Value w = b.variable("w", kF32, {2}), lr = b.fill(0.5, kF32, {});
  g.push_scope("layer");
  const Value hidden = b.relu(b.mul(x, w));
  g.pop_scope();
  const Value y = b.add(hidden, hidden);
  b.output("y", y);
  b.output("z", b.tanh(unused));
  b.output("step", b.add_node(op::kApplySgd, {w, y, lr}));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return std::make_shared<const Graph>(std::move(g));
}

std::shared_ptr<const Graph> starting() {
  Graph g;
  Builder b(g);
  b.output("start", b.add_node(op::kAssign, {b.variable("w", kF32, {2}), b.input("value", kF32, {2})}));
  return std::make_shared<const Graph>(std::move(g));
}

// Feeds name their tensors, so that co_await sees no temporaries.
Task<std::string> error_of(Session& s, exec::Feeds feeds, std::vector<std::string> fetches) {
  Task<Result<std::vector<Tensor>>> task = s.run(std::move(feeds), std::move(fetches));
  const Result<std::vector<Tensor>> result = co_await task;
  EXPECT_FALSE(result.ok());
  co_return result.status().message();
}

Task<std::vector<Tensor>> run(Session& s, exec::Feeds feeds, std::vector<std::string> fetches,
                              std::vector<std::string> effects = {}) {
  Task<Result<std::vector<Tensor>>> task = s.run(std::move(feeds), std::move(fetches), std::move(effects));
  Result<std::vector<Tensor>> result = co_await task;
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  co_return result.ok() ? *result : std::vector<Tensor>(8, tensor({}));
}

TEST(Session, FetchesAndFeedsAnyEdgeAndRunsOnlyWhatIsNeeded) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, program(), {});
    EXPECT_TRUE(s->variables().add("w", tensor({3, -4})).ok());
    const exec::Feeds x{{"x", tensor({1, 2})}};
    const std::vector<std::string> inner{"y", "layer/relu", "layer/mul:0", "x", "w"};
    auto task = run(*s, x, inner);
    const std::vector<Tensor> got = co_await task;
    EXPECT_EQ(bits(got[0]), bits(tensor({6, 0})));
    EXPECT_EQ(bits(got[1]), bits(tensor({3, 0})));
    EXPECT_EQ(bits(got[2]), bits(tensor({3, -8})));
    EXPECT_EQ(bits(got[3]), bits(tensor({1, 2})));
    EXPECT_EQ(bits(got[4]), bits(tensor({3, -4}))) << "the update was not asked for";

    const exec::Feeds edge{{"layer/relu", tensor({10, 20})}};
    const std::vector<std::string> y{"y", "layer/relu"};
    auto cut = run(*s, edge, y);
    const std::vector<Tensor> fed = co_await cut;
    EXPECT_EQ(bits(fed[0]), bits(tensor({20, 40}))) << "without x: nothing before the fed edge runs";
    EXPECT_EQ(bits(fed[1]), bits(tensor({10, 20})));
    EXPECT_EQ(s->num_compiled(), 2);
  });
}

TEST(Session, ResultsAreCopiesThatLaterRunsLeaveAlone) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, program(), {});
    EXPECT_TRUE(s->variables().add("w", tensor({1, 1})).ok());
    const std::vector<std::string> fetches{"y", "w"}, effects{"step"};
    const exec::Feeds one{{"x", tensor({1, 1})}}, two{{"x", tensor({2, 2})}};
    auto first = run(*s, one, fetches, effects);
    const std::vector<Tensor> a = co_await first;
    auto second = run(*s, two, fetches, effects);
    const std::vector<Tensor> b = co_await second;
    EXPECT_EQ(bits(a[0]), bits(tensor({2, 2})));
    EXPECT_EQ(bits(b[0]), bits(tensor({0, 0}))) << "w is 0 after the first step";
    EXPECT_EQ(s->num_compiled(), 1) << "replayed";
    s.reset();
    EXPECT_EQ(bits(a[0]), bits(tensor({2, 2})));
  });
}

TEST(Session, MistakesAreNamed) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, program(), {});
    const exec::Feeds none, x{{"x", tensor({1, 2})}}, long_x{{"x", tensor({1, 2, 3})}},
        wrong{{"x", tensor({1, 2})}, {"label", tensor({1})}},
        twice{{"layer/mul", tensor({1, 2})}, {"layer/mul:0", tensor({1, 2})}};
    const std::vector<std::string> y{"y"}, yz{"y", "z"}, q{"q"}, nothing;
    auto missing = error_of(*s, none, yz);
    EXPECT_THAT(co_await missing, AllOf(HasSubstr("'x' (f32[2])"), HasSubstr("'unused' (f32[2])")));
    auto type = error_of(*s, long_x, y);
    EXPECT_THAT(co_await type, HasSubstr("feed 'x' has the wrong type: got f32[3], expected f32[2]"));
    auto unknown = error_of(*s, wrong, y);
    EXPECT_THAT(co_await unknown, HasSubstr("feed 'label'"));
    auto fetch = error_of(*s, x, q);
    EXPECT_THAT(co_await fetch, HasSubstr("no edge 'q'"));
    auto same = error_of(*s, twice, y);
    EXPECT_THAT(co_await same, HasSubstr("are the same edge"));
    auto idle = error_of(*s, x, nothing);
    EXPECT_THAT(co_await idle, HasSubstr("does nothing"));
    auto variable = error_of(*s, x, y);
    EXPECT_THAT(co_await variable, AllOf(HasSubstr("variable 'w' (f32[2])"), HasSubstr("container 'main'")));
    EXPECT_EQ(make_session(rt, nullptr, {}).status().code(), Code::kInvalid);
  });
}

TEST(Session, ContainersAreSharedAndAnAssignGraphFillsThem) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto containers = std::make_shared<Containers>();
    auto init = *make_session(rt, starting(), {.containers = containers, .container = "replica"});
    auto train = *make_session(rt, program(), {.containers = containers, .container = "replica"});
    auto other = *make_session(rt, program(), {.containers = containers, .container = "other"});
    const exec::Feeds value{{"value", tensor({5, 6})}}, x{{"x", tensor({1, 1})}};
    const std::vector<std::string> start{"start"}, y{"y"}, none;
    auto started = run(*init, value, none, start);
    co_await started;
    auto ran = run(*train, x, y);
    const std::vector<Tensor> got = co_await ran;
    EXPECT_EQ(bits(got[0]), bits(tensor({10, 12})));
    auto empty = error_of(*other, x, y);
    EXPECT_THAT(co_await empty, HasSubstr("container 'other'"));
    EXPECT_EQ(containers->names(), (std::vector<std::string>{"other", "replica"}));
  });
}

TEST(Session, KeepsAtMostSoManyCompiledGraphs) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, program(), {.max_compiled = 2});
    EXPECT_TRUE(s->variables().add("w", tensor({1, 1})).ok());
    const exec::Feeds x{{"x", tensor({1, 1})}};
    const std::vector<std::string> names{"y", "layer/relu", "layer/mul", "y"};
    for (const std::string& name : names) {
      const std::vector<std::string> fetches(1, name);
      auto task = run(*s, x, fetches);
      co_await task;
      EXPECT_LE(s->num_compiled(), 2);
    }
  });
}

TEST(Session, RunsOverlapEachWithItsOwnExecution) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    on_shuffled(
        [](Runtime& rt) -> Task<void> {
          auto s = *make_session(rt, program(), {});
          EXPECT_TRUE(s->variables().add("w", tensor({1, 2})).ok());
          std::vector<std::vector<Tensor>> got(6);
          std::vector<Task<Status>> tasks;
          for (int i = 0; i < 6; ++i)
            tasks.push_back([](Session& session, int k, std::vector<Tensor>& out) -> Task<Status> {
              const exec::Feeds x{{"x", tensor({static_cast<float>(k), 1})}};
              const std::vector<std::string> fetches{"y"};
              auto task = run(session, x, fetches);
              out = co_await task;
              co_return Status();
            }(*s, i, got[static_cast<std::size_t>(i)]));
          EXPECT_TRUE((co_await runtime::when_all(rt, std::move(tasks))).ok());
          for (int i = 0; i < 6; ++i)
            EXPECT_EQ(bits(got[static_cast<std::size_t>(i)][0]),
                      bits(tensor({2.0F * static_cast<float>(i), 4})));
          EXPECT_EQ(s->num_compiled(), 1);
        },
        seed);
}

// y = relu(x) w with an unknown batch; the loss is its sum.
std::shared_ptr<const Graph> batch_template() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {kUnknownDim, 2}), scale = b.input("scale", kF32, {kUnknownDim, 1});
  const Value y = b.matmul(b.relu(x), b.variable("w", kF32, {2, 1}));
  b.output("y", b.mul(y, scale));
  b.output("loss", b.sum(y));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return std::make_shared<const Graph>(std::move(g));
}

Tensor matrix(std::vector<float> values, std::int64_t rows) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  return *tensor(std::move(values)).reshape({rows, columns});
}

TEST(Session, AnUnknownBatchSizeIsTakenFromTheFeeds) {
  on_virtual([](Runtime& rt) -> Task<void> {
    auto s = *make_session(rt, batch_template(), {});
    EXPECT_TRUE(s->variables().add("w", matrix({10, 1}, 2)).ok());
    const exec::Feeds one{{"x", matrix({1, 2}, 1)}, {"scale", matrix({1}, 1)}},
        three{{"x", matrix({1, 2, -3, 4, 5, 6}, 3)}, {"scale", matrix({1, 2, 3}, 3)}},
        inner{{"relu", matrix({1, 1, 2, 2}, 2)}},
        uneven{{"x", matrix({1, 2}, 1)}, {"scale", matrix({1, 2}, 2)}}, without{{"x", matrix({1, 2}, 1)}};
    const std::vector<std::string> y{"y"}, loss{"loss"};
    auto first = run(*s, one, y);
    const std::vector<Tensor> a = co_await first;
    EXPECT_EQ(bits(a[0]), bits(tensor({12})));
    auto second = run(*s, three, y);
    const std::vector<Tensor> b = co_await second;
    EXPECT_EQ(b[0].shape(), Shape({3, 1}));
    EXPECT_EQ(bits(b[0]), bits(tensor({12, 8, 168})));
    auto third = run(*s, inner, loss);
    const std::vector<Tensor> c = co_await third;
    EXPECT_EQ(bits(c[0]), bits(tensor({33}))) << "the batch of a fed inner edge counts too";
    EXPECT_EQ(s->num_compiled(), 3);
    auto differ = error_of(*s, uneven, y);
    EXPECT_THAT(co_await differ, HasSubstr("different batch sizes: got 2 and 1"));
    auto missing = error_of(*s, without, y);
    EXPECT_THAT(co_await missing, HasSubstr("'scale' (f32[1, 1])"));
  });
}

TEST(Session, RunsTheGraphPassesItIsTold) {
  on_virtual([](Runtime& rt) -> Task<void> {
    const std::vector<std::string> y{"y"};
    const exec::Feeds x{{"x", tensor({1, 2})}};
    std::vector<std::string> names;
    for (const graph::PassRow& row : graph::pass_table())
      if (row.exactness == graph::Exactness::kExact) names.emplace_back(row.name);
    auto s = *make_session(rt, program(), {.passes = names});
    EXPECT_TRUE(s->variables().add("w", tensor({3, 4})).ok());
    auto task = run(*s, x, y);
    const std::vector<Tensor> got = co_await task;
    EXPECT_EQ(bits(got[0]), bits(tensor({6, 16})));
    auto wrong = *make_session(rt, program(), {.passes = std::vector<std::string>(1, "magic")});
    auto unknown = error_of(*wrong, x, y);
    EXPECT_THAT(co_await unknown, HasSubstr("no graph pass 'magic'"));
  });
}

TEST(BlockingSession, RunsWithoutALoopInSight) {
  auto s = *BlockingSession::make(*program(), {}, 1);
  ASSERT_TRUE(s.variables().add("w", tensor({1, 2})).ok());
  EXPECT_EQ(bits(*s.run_one({{"x", tensor({3, 3})}}, "y")), bits(tensor({6, 12})));
  const auto both = s.run({{"x", tensor({3, 3})}}, {"y", "layer/mul"}, {"step"});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(bits((*both)[1]), bits(tensor({3, 6})));
  EXPECT_EQ(bits(*s.variables().get("w")), bits(tensor({-2, -4})));
  EXPECT_THAT(s.run_one({}, "y").status().message(), HasSubstr("not fed"));
}

}  // namespace
}  // namespace trireme::exec
