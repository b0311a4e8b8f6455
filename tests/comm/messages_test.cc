// Messages between two ranks, in real and in virtual time, and what follows where one end is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using runtime::Task;
using ::testing::HasSubstr;

void on_both(const testing::RankOptions& options, const testing::Body& body) {
  testing::run_on_threads(options, body);
  testing::expect_finished(testing::run_virtual(options, {}, body));
}

Call call_at(std::uint32_t step, std::uint16_t slot = 3) {
  Call call;
  call.step = step;
  call.slot = slot;
  call.label = "activations";
  return call;
}

TEST(Messages, GoFromOneRankToAnotherWhileTheOthersDoSomethingElse) {
  testing::RankOptions options;
  options.world = 3;
  on_both(options, [](runtime::Runtime& rt, Group& group) -> Task<void> {
    // Rank 0 to 2 in two steps, the later one first; 2 to 0 under the same name; rank 1 knows of nothing.
    const Tensor first = testing::tensor_of({1, 2, 3}), second = testing::tensor_of({4, 5});
    const Tensor back = testing::tensor_of({static_cast<float>(group.rank())});
    std::vector<Task<Status>> calls;
    if (group.rank() == 0) {
      calls.push_back(group.send(call_at(8), 2, second));
      calls.push_back(group.send(call_at(7), 2, first));
      calls.push_back(group.recv(call_at(7), 2, back));
    } else if (group.rank() == 2) {
      calls.push_back(group.recv(call_at(7), 0, first));
      calls.push_back(group.recv(call_at(8), 0, second));
      calls.push_back(group.send(call_at(7), 0, back));
      for (const Tensor& t : {first, second})
        for (float& v : t.values<float>()) v = 0;
    }
    EXPECT_TRUE((co_await runtime::when_all(rt, std::move(calls))).ok());
    EXPECT_EQ(testing::values_of(first), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(testing::values_of(second), (std::vector<float>{4, 5}));
    EXPECT_EQ(testing::values_of(back)[0], group.rank() == 1 ? 1 : 2);
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(Messages, OfASubGroupCountItsRanks) {
  testing::RankOptions options;
  options.world = 4;
  on_both(options, [](runtime::Runtime&, Group& group) -> Task<void> {
    const bool odd = group.rank() % 2 == 1;
    auto half = *group.subgroup(odd ? std::vector<int>{3, 1} : std::vector<int>{0, 2}, odd ? 8 : 9);
    const Tensor data = testing::tensor_of({static_cast<float>(group.rank())});
    if (half->rank() == 0) {
      EXPECT_TRUE((co_await half->send(call_at(1), 1, data)).ok());
    }
    if (half->rank() == 1) {
      EXPECT_TRUE((co_await half->recv(call_at(1), 0, data)).ok());
    }
    EXPECT_EQ(testing::values_of(data)[0], odd ? 3 : 0);
    EXPECT_TRUE((co_await half->leave()).ok());
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(Messages, OfIterationsThatDriftApartDoNotMix) {
  testing::RankOptions options;
  options.world = 2;
  on_both(options, [](runtime::Runtime& rt, Group& group) -> Task<void> {
    constexpr int kIterations = 5;
    std::vector<Tensor> data;
    for (int i = 0; i < kIterations; ++i)
      data.push_back(testing::tensor_of({group.rank() == 0 ? static_cast<float>(i) : -1.0F}));
    // The receiver takes the last iteration first: order alone would not tell them apart.
    std::vector<Task<Status>> calls;
    for (int i = 0; i < kIterations; ++i) {
      const int iteration = group.rank() == 0 ? i : kIterations - 1 - i;
      Call call = call_at(1);
      call.iteration = static_cast<std::uint16_t>(iteration);
      const Tensor& t = data[static_cast<std::size_t>(iteration)];
      calls.push_back(group.rank() == 0 ? group.send(call, 1, t) : group.recv(call, 0, t));
    }
    EXPECT_TRUE((co_await runtime::when_all(rt, std::move(calls))).ok());
    for (int i = 0; i < kIterations; ++i)
      EXPECT_EQ(testing::values_of(data[static_cast<std::size_t>(i)])[0], static_cast<float>(i));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(Messages, WhoWaitsForOneIsNotBlamedWhileItsSenderComputes) {
  testing::RankOptions options;
  options.world = 3;
  testing::expect_finished(
      testing::run_virtual(options, {}, [](runtime::Runtime& rt, Group& group) -> Task<void> {
        const Tensor data = testing::tensor_of({7});
        if (group.rank() == 0) {
          // Far longer than any deadline.
          co_await rt.compute({.flops = 2e12, .bytes = 0}, [](runtime::ComputeContext&) {});
          EXPECT_GT(rt.now(), 10 * kSecond);
          EXPECT_TRUE((co_await group.send(call_at(1), 1, data)).ok());
        } else {
          // Rank 2 waits for rank 1, which waits for rank 0.
          EXPECT_TRUE((co_await group.recv(call_at(1), group.rank() - 1, data)).ok());
          if (group.rank() == 1) {
            EXPECT_TRUE((co_await group.send(call_at(1), 2, data)).ok());
          }
        }
        EXPECT_TRUE((co_await group.leave()).ok());
      }));
}

TEST(Messages, ASenderThatNeverSendsIsNamed) {
  testing::RankOptions options;
  options.world = 3;
  options.group.membership.heartbeat = 20 * kMilli;
  options.group.membership.deadline = 200 * kMilli;
  on_both(options, [](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Tensor data = testing::tensor_of({7});
    if (group.rank() == 2) {
      const Status ended = co_await group.recv(call_at(4), 1, data);
      EXPECT_THAT(ended.message(), HasSubstr("recv activations from rank 1, step 4"));
    }
    while (group.verdict().ok()) co_await rt.sleep_for(kMilli);
    EXPECT_EQ(group.verdict().context().peer, 1) << group.verdict().to_string();
    EXPECT_FALSE((co_await group.leave()).ok());
  });
}

TEST(Messages, OfAnotherSizeThanExpectedAreAMismatch) {
  testing::RankOptions options;
  options.world = 3;
  on_both(options, [](runtime::Runtime&, Group& group) -> Task<void> {
    const Tensor data = testing::tensor_of(std::vector<float>(group.rank() == 0 ? 2 : 3));
    Status ended;
    if (group.rank() == 0) ended = co_await group.send(call_at(1), 1, data);
    if (group.rank() == 1) {
      ended = co_await group.recv(call_at(1), 0, data);
      EXPECT_EQ(ended.code(), Code::kMismatch) << ended.to_string();
      EXPECT_THAT(ended.message(), HasSubstr("recv activations from rank 0, step 1"));
    }
    EXPECT_EQ((co_await group.leave()).code(), Code::kMismatch);
  });
}

TEST(Messages, ToNobodyAreRefused) {
  testing::RankOptions options;
  options.world = 2;
  testing::expect_finished(
      testing::run_virtual(options, {}, [](runtime::Runtime&, Group& group) -> Task<void> {
        const Tensor data = testing::tensor_of({7});
        for (const int peer : {-1, group.rank(), 2})
          EXPECT_EQ((co_await group.send(call_at(1), peer, data)).code(), Code::kInvalid) << peer;
        EXPECT_EQ((co_await group.recv(call_at(1), 1 - group.rank(), Tensor())).code(), Code::kInvalid);
        EXPECT_TRUE((co_await group.leave()).ok());
      }));
}

TEST(Messages, AreNamedInErrorsByStepShardAndIteration) {
  testing::RankOptions options;
  options.world = 2;
  testing::expect_finished(
      testing::run_virtual(options, {}, [](runtime::Runtime&, Group& group) -> Task<void> {
        const Tensor data = testing::tensor_of(std::vector<float>(group.rank() == 0 ? 2 : 3));
        Call call = call_at(17 * 4 + 2);
        call.num_shards = 4;
        call.iteration = 5;
        const Status ended = co_await group.allreduce(call, data);
        EXPECT_THAT(ended.message(), HasSubstr("allreduce activations, step 17, shard 2, iteration 5"));
        EXPECT_FALSE((co_await group.leave()).ok());
      }));
}

}  // namespace
}  // namespace trireme::comm
