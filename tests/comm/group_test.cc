#include "trireme/comm/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using testing::run_on_threads;
using testing::run_virtual;
using testing::tensor_of;
using testing::values_of;

Call call_of(std::uint32_t step, std::uint16_t slot, const char* algorithm = "") {
  Call c;
  c.step = step;
  c.slot = slot;
  c.label = fmt::format("bucket {}", slot);
  c.algorithm = algorithm;
  return c;
}

// Values of very different sizes: the order of addition shows in the bits.
std::vector<float> leaf_values(std::uint64_t seed, int leaf, std::int64_t count) {
  Philox rng(seed, static_cast<std::uint64_t>(leaf));
  std::vector<float> v(static_cast<std::size_t>(count));
  for (float& x : v) x = (rng.next_uniform() - 0.5F) * std::ldexp(1.0F, static_cast<int>(rng.next_below(30)));
  return v;
}

std::vector<float> add(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

// The fixed tree, written down independently: the leaves of [first, first + span) that exist.
std::vector<float> tree_sum(std::uint64_t seed, std::int64_t count, int first, int span, int num_leaves) {
  if (span == 1) return leaf_values(seed, first, count);
  auto left = tree_sum(seed, count, first, span / 2, num_leaves);
  if (first + span / 2 >= num_leaves) return left;
  return add(left, tree_sum(seed, count, first + span / 2, span / 2, num_leaves));
}
std::vector<float> whole_tree(std::uint64_t seed, std::int64_t count, int num_leaves) {
  int span = 1;
  while (span < num_leaves) span *= 2;
  return tree_sum(seed, count, 0, span, num_leaves);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs the same body on threads and on the virtual cluster.
void run_everywhere(const testing::RankOptions& options, const testing::Body& body) {
  run_on_threads(options, body);
  testing::expect_finished(run_virtual(options, {}, body));
}

TEST(Group, SumsOverRanksWithEveryAlgorithm) {
  for (const int world : {1, 2, 3, 5, 8})
    for (const char* algorithm : {"ring", "fixed-tree", ""})
      for (const std::int64_t count : {0, 1, 7, 40'000}) {
        const auto body = [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
          std::vector<float> mine(static_cast<std::size_t>(count));
          for (std::size_t i = 0; i < mine.size(); ++i)
            mine[i] = static_cast<float>(group.rank() + 1) * static_cast<float>(i % 1000);
          const Tensor data = tensor_of(mine);
          const Status s = co_await group.allreduce(call_of(1, 0, algorithm), data);
          EXPECT_TRUE(s.ok()) << s.to_string();
          const auto factor = static_cast<float>(world * (world + 1) / 2);
          const auto sum = values_of(data);
          for (std::size_t i = 0; i < sum.size(); ++i) {
            EXPECT_EQ(sum[i], factor * static_cast<float>(i % 1000)) << "element " << i;
            if (::testing::Test::HasFailure()) break;
          }
          EXPECT_TRUE((co_await group.leave()).ok());
        };
        testing::RankOptions options;
        options.world = world;
        run_everywhere(options, body);
      }
}

// The sum over V leaves is the same bits for every number of ranks and every cut into runs.
runtime::Task<void> tree_body(Group& group, std::uint64_t seed, std::int64_t count, int num_leaves,
                              const std::vector<collective::LeafRun>& runs, const std::vector<float>& want) {
  for (std::uint32_t step = 0; step < 2; ++step) {  // the second time with the cached program
    Call call = call_of(step, 3, "fixed-tree");
    call.leaf_runs = runs;
    call.num_leaves = num_leaves;
    std::vector<Tensor> partials;
    for (const auto& n :
         collective::maximal_subtrees(runs[static_cast<std::size_t>(group.rank())], num_leaves))
      partials.push_back(tensor_of(tree_sum(seed, count, n.first, 1 << n.level, num_leaves)));
    const bool in_place = step == 1 && !partials.empty();
    const Tensor result =
        in_place ? partials[0] : tensor_of(std::vector<float>(static_cast<std::size_t>(count)));
    const Status s = co_await group.allreduce_tree(std::move(call), partials, result);
    EXPECT_TRUE(s.ok()) << s.to_string();
    EXPECT_TRUE(same_bits(values_of(result), want)) << "rank " << group.rank() << " of " << group.world()
                                                    << ", " << num_leaves << " leaves, seed " << seed;
  }
  EXPECT_TRUE((co_await group.leave()).ok());
}

TEST(Group, TreeSumHasTheSameBitsForEveryWorldAndEveryCutIntoRuns) {
  std::uint64_t seed = 100;
  for (int num_leaves = 1; num_leaves <= 12; ++num_leaves) {
    const std::int64_t count = num_leaves % 4 == 0 ? 50'000 : 33;
    const auto want = whole_tree(static_cast<std::uint64_t>(num_leaves), count, num_leaves);
    for (int world = 1; world <= 8; ++world) {
      Philox rng(++seed);
      std::vector<int> cuts{0, num_leaves};
      for (int i = 1; i < world; ++i)
        cuts.push_back(static_cast<int>(rng.next_below(static_cast<std::uint32_t>(num_leaves + 1))));
      std::sort(cuts.begin(), cuts.end());
      std::vector<collective::LeafRun> runs;
      for (std::size_t r = 0; r + 1 < cuts.size(); ++r) runs.push_back({cuts[r], cuts[r + 1] - cuts[r]});
      const auto body = [&](runtime::Runtime&, Group& group) {
        return tree_body(group, static_cast<std::uint64_t>(num_leaves), count, num_leaves, runs, want);
      };
      testing::RankOptions options;
      options.world = world;
      testing::expect_finished(run_virtual(options, {}, body));
      if ((world + num_leaves) % 5 == 0) run_on_threads(options, body);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

TEST(Group, TheOrderOfAdditionShowsInTheTestData) {
  const auto tree = whole_tree(4, 33, 8);
  std::vector<float> line = leaf_values(4, 0, 33);
  for (int leaf = 1; leaf < 8; ++leaf) line = add(line, leaf_values(4, leaf, 33));
  EXPECT_FALSE(same_bits(tree, line));
}

TEST(Group, BroadcastsFromEveryRootAndMeetsAtBarriers) {
  for (const int world : {1, 2, 5, 8}) {
    const auto body = [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      for (int root = 0; root < world; ++root) {
        Call call = call_of(static_cast<std::uint32_t>(root), 1);
        call.root = root;
        const Tensor data = tensor_of(std::vector<float>(100, static_cast<float>(group.rank())));
        EXPECT_TRUE((co_await group.broadcast(call, data)).ok());
        EXPECT_EQ(values_of(data), std::vector<float>(100, static_cast<float>(root)));
        EXPECT_TRUE((co_await group.barrier(call_of(static_cast<std::uint32_t>(root), 2))).ok());
      }
      EXPECT_TRUE((co_await group.leave()).ok());
    };
    testing::RankOptions options;
    options.world = world;
    run_everywhere(options, body);
  }
}

TEST(Group, ABarrierEndsAfterTheLastRankCame) {
  constexpr int kWorld = 5;
  std::vector<TimeNs> came(kWorld), went(kWorld);
  const auto body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    const auto r = static_cast<std::size_t>(group.rank());
    co_await rt.sleep_for(static_cast<TimeNs>((r * 7) % kWorld) * kMilli);
    came[r] = rt.now();
    EXPECT_TRUE((co_await group.barrier(call_of(0, 0))).ok());
    went[r] = rt.now();
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  testing::RankOptions options;
  options.world = kWorld;
  testing::expect_finished(run_virtual(options, {}, body));
  EXPECT_GE(*std::min_element(went.begin(), went.end()), *std::max_element(came.begin(), came.end()));
}

// Eight collectives at once, started by every rank in an order of its own.
TEST(Group, RunsManyCollectivesAtOnceStartedInAnyOrder) {
  constexpr int kWorld = 4, kSlots = 8;
  const auto body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    for (std::uint32_t step = 0; step < 3; ++step) {
      std::vector<int> order(kSlots);
      std::iota(order.begin(), order.end(), 0);
      Philox rng(static_cast<std::uint64_t>(group.rank()), step);
      for (std::size_t i = order.size() - 1; i > 0; --i)
        std::swap(order[i], order[rng.next_below(static_cast<std::uint32_t>(i + 1))]);
      std::vector<Tensor> data(kSlots);
      std::vector<runtime::Task<Status>> tasks;
      for (const int slot : order) {
        data[static_cast<std::size_t>(slot)] = tensor_of(std::vector<float>(
            static_cast<std::size_t>(100 + 30'000 * slot), static_cast<float>(slot * 10 + group.rank())));
        tasks.push_back(group.allreduce(
            call_of(step, static_cast<std::uint16_t>(slot), slot % 2 == 0 ? "ring" : "fixed-tree"),
            data[static_cast<std::size_t>(slot)]));
      }
      const Status s = co_await runtime::when_all(rt, std::move(tasks));
      EXPECT_TRUE(s.ok()) << s.to_string();
      for (int slot = 0; slot < kSlots; ++slot) {
        const auto sum = values_of(data[static_cast<std::size_t>(slot)]);
        const auto want = static_cast<float>(slot * 10 * kWorld + 6);
        EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [&](float v) { return v == want; }))
            << "slot " << slot;
      }
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  testing::RankOptions options;
  options.world = kWorld;
  run_everywhere(options, body);
}

// A call may begin after another ended but before its caller resumed: both callers must hear of their own
// end.
TEST(Group, ChainsOfCallsSideBySideAllEnd) {
  testing::RankOptions options;
  options.world = 2;
  const testing::Body body = [](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    std::vector<runtime::Task<Status>> chains;
    for (std::uint16_t slot = 0; slot < 4; ++slot)
      chains.push_back([](Group& g, std::uint16_t s) -> runtime::Task<Status> {
        for (std::uint32_t step = 0; step < 60; ++step) {
          const Tensor data = tensor_of({1.0F, 2.0F});
          Call call = call_of(step, s, "ring");
          TR_CO_RETURN_IF_ERROR(co_await g.allreduce(std::move(call), data));
          EXPECT_EQ(values_of(data), (std::vector<float>{2.0F, 4.0F}));
        }
        co_return Status();
      }(group, slot));
    const Status all = co_await runtime::when_all(rt, std::move(chains));
    EXPECT_TRUE(all.ok()) << all.to_string();
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  };
  for (int repeat = 0; repeat < 5; ++repeat) run_on_threads(options, body);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    runtime::WorldSpec spec;
    spec.seed = seed;
    spec.latency_jitter = 0.9;
    testing::expect_finished(run_virtual(options, spec, body));
  }
}

TEST(Group, RefusesWhatMakesNoSenseWithoutHurtingTheGroup) {
  const auto body = [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const Tensor data = tensor_of({1, 2, 3});
    const Tensor longer = tensor_of({1, 2, 3, 4});
    Call named = call_of(0, 0, "star");
    EXPECT_EQ((co_await group.allreduce(named, data)).code(), Code::kNotFound);
    Call leaves = call_of(0, 0);
    leaves.leaf_runs = {{0, 2}, {2, 3}};
    leaves.num_leaves = 5;
    EXPECT_EQ((co_await group.allreduce(leaves, data)).code(), Code::kInvalid);
    const std::vector<Tensor> partials{data, longer};
    EXPECT_EQ((co_await group.allreduce_tree(leaves, partials, data)).code(), Code::kInvalid);
    EXPECT_EQ((co_await group.allreduce_tree(leaves, {}, data)).code(), Code::kInvalid);
    EXPECT_EQ((co_await group.broadcast(call_of(0, 0), Tensor())).code(), Code::kInvalid);
    Call far = call_of(0, 0);
    far.root = 2;
    EXPECT_EQ((co_await group.broadcast(far, data)).code(), Code::kInvalid);
    EXPECT_TRUE((co_await group.allreduce(call_of(1, 0), data)).ok());
    EXPECT_EQ(values_of(data), (std::vector<float>{2, 4, 6}));
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  run_everywhere({}, body);
}

// Same calls, same messages: what a rank sends does not depend on the world it runs in.
TEST(Group, SendsTheSameSequenceOfMessagesInTheVirtualAndInTheRealWorld) {
  for (const char* algorithm : {"ring", "fixed-tree"}) {
    const auto body = [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      for (std::uint32_t step = 0; step < 3; ++step) {
        const Tensor data = tensor_of(std::vector<float>(100'000, 1));
        EXPECT_TRUE((co_await group.allreduce(call_of(step, 0, algorithm), data)).ok());
        EXPECT_TRUE((co_await group.broadcast(call_of(step, 1), data)).ok());
      }
      EXPECT_TRUE((co_await group.leave()).ok());
    };
    std::vector<std::vector<net::SendRecord>> real, simulated;
    testing::RankOptions options;
    options.world = 4;
    options.sends = &real;
    run_on_threads(options, body);
    options.sends = &simulated;
    runtime::WorldSpec spec;
    spec.latency_jitter = 0.5;
    testing::expect_finished(run_virtual(options, spec, body));
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_GT(simulated[r].size(), 12U);
      EXPECT_EQ(real[r], simulated[r]) << algorithm << ", rank " << r;
    }
  }
}

}  // namespace
}  // namespace trireme::comm
