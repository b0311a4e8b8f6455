// Sums through shared memory: the bits of the fixed-tree schedule, whatever the size, the type and where the
// tensors lie.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"
#include "trireme/comm/direct.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using collective::Reduction;
using testing::tensor_of;
using testing::values_of;
using Values = std::vector<float>;

// Sums of these depend on the order of addition.
Values input(int rank, std::int64_t count, std::uint64_t seed) {
  Values v(static_cast<std::size_t>(count));
  std::uint64_t x = seed * 977 + static_cast<std::uint64_t>(rank) * 131 + 7;
  for (float& f : v) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    f = static_cast<float>(static_cast<std::int64_t>(x >> 20) % 1'000'003) * 1e-3F + 1e-7F * f;
  }
  return v;
}

struct TempDir {
  std::string path = (std::filesystem::temp_directory_path() / "trireme-direct-XXXXXX").string();
  TempDir() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~TempDir() { std::filesystem::remove_all(path); }
};

void run_on_shm(int world, const testing::Body& body, bool threads = true) {
  testing::RankOptions options;
  options.world = world;
  options.transport = "shm";
  testing::expect_finished(testing::run_virtual(options, {}, body));
  if (!threads) return;
  const TempDir dir;
  options.rendezvous = dir.path;
  testing::run_on_threads(options, body);
}

// Ranks of one thread, whose bells are counted.
class CountingWindow final : public net::Window {
 public:
  CountingWindow(std::vector<std::byte*> parts, int rank) : parts_(std::move(parts)), rank_(rank) {}
  std::uint64_t bytes() const override { return Direct::window_bytes(); }
  std::byte* local() override { return peer(rank_); }
  std::byte* peer(int rank) override { return parts_[static_cast<std::size_t>(rank)]; }
  void put(int, std::uint64_t, net::View, net::Completion*, std::uint64_t) override { FAIL(); }
  void get(int, std::uint64_t, net::View, net::Completion*, std::uint64_t) override { FAIL(); }
  void wake(int peer) override { rung.push_back(peer); }

  std::vector<int> rung;

 private:
  const std::vector<std::byte*> parts_;
  const int rank_;
};

class NoListener final : public Direct::Listener {
 public:
  void on_direct_ended(std::uint64_t) override {}
  void on_direct_failed(std::uint64_t, int, const Status& status) override { FAIL() << status.to_string(); }
  void on_direct_progress() override {}
};

enum class Where { kHeap, kWindow, kMixed };

Tensor place(Group& group, const Values& values, Where where) {
  if (where == Where::kHeap || (where == Where::kMixed && group.rank() == 0)) return tensor_of(values);
  auto t = group.allocate({DType::kF32, {static_cast<std::int64_t>(values.size())}});
  EXPECT_TRUE(t.ok()) << t.status().to_string();
  std::copy(values.begin(), values.end(), t->values<float>().begin());
  return *t;
}

Call call_of(std::uint16_t slot, std::uint32_t step, const char* algorithm = "") {
  Call c;
  c.slot = slot;
  c.step = step;
  c.label = fmt::format("slot {}", slot);
  c.algorithm = algorithm;
  return c;
}

// What the schedule gives, by messages.
Values by_messages(int world, std::int64_t count, std::uint64_t seed, Reduction reduction) {
  Values result;
  testing::RankOptions options;
  options.world = world;
  testing::expect_finished(
      testing::run_virtual(options, {}, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
        const Tensor data = tensor_of(input(group.rank(), count, seed));
        Call call = call_of(0, 0, "fixed-tree");
        call.reduction = reduction;
        const Status s = co_await group.allreduce(call, data);
        EXPECT_TRUE(s.ok()) << s.to_string();
        if (group.rank() == group.world() - 1) result = values_of(data);
        const Status left = co_await group.leave();
        EXPECT_TRUE(left.ok()) << left.to_string();
      }));
  return result;
}

TEST(Direct, GivesTheBitsOfTheFixedTreeForEverySizeAndPlace) {
  const std::vector<std::int64_t> counts{1, 7, 511, 513, 5'000, 70'001, 300'000};
  for (int world = 2; world <= 9; ++world) {
    std::vector<Values> expected;
    for (std::size_t i = 0; i < counts.size(); ++i)
      expected.push_back(by_messages(world, counts[i], i, Reduction::kSum));
    run_on_shm(
        world,
        [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
          std::uint32_t step = 0;
          for (const Where where : {Where::kHeap, Where::kWindow, Where::kMixed}) {
            for (std::size_t i = 0; i < counts.size(); ++i) {
              const Tensor data = place(group, input(group.rank(), counts[i], i), where);
              const Status s = co_await group.allreduce(call_of(3, step++), data);
              EXPECT_TRUE(s.ok()) << s.to_string();
              EXPECT_EQ(values_of(data), expected[i]) << world << " ranks, " << counts[i] << " elements";
            }
          }
          const Status left = co_await group.leave();
          EXPECT_TRUE(left.ok()) << left.to_string();
        },
        /*threads=*/world <= 5);
  }
}

TEST(Direct, KnowsEveryReductionInAndOutOfPlace) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin})
    for (const std::int64_t count : {100, 40'000}) {
      const Values expected = by_messages(3, count, 5, reduction);
      run_on_shm(3, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
        std::uint32_t step = 0;
        for (const Where where : {Where::kHeap, Where::kWindow, Where::kMixed}) {
          const Values mine = input(group.rank(), count, 5);
          const Tensor in = place(group, mine, where), out = place(group, Values(mine.size(), -1), where);
          Call call = call_of(0, step++);
          call.reduction = reduction;
          const Status s = co_await group.allreduce(call, in, out);
          EXPECT_TRUE(s.ok()) << s.to_string();
          EXPECT_EQ(values_of(in), mine);
          EXPECT_EQ(values_of(out), expected);
        }
        const Status left = co_await group.leave();
        EXPECT_TRUE(left.ok()) << left.to_string();
      });
    }
}

// Nothing is spread: a rank has its own chunk of the sum, and nobody else's memory was written.
TEST(Direct, GivesEveryRankItsOwnChunkWhereNobodyWantsMore) {
  constexpr std::int64_t kCount = 40'000;
  const Values expected = by_messages(3, kCount, 5, Reduction::kSum);
  run_on_shm(3, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const Values mine = input(group.rank(), kCount, 5);
    const Tensor data = place(group, mine, Where::kWindow);
    Call call = call_of(0, 0);
    call.own_chunk = true;
    const Status s = co_await group.allreduce(call, data);
    EXPECT_TRUE(s.ok()) << s.to_string();
    const Status met = co_await group.barrier(call_of(1, 0));
    EXPECT_TRUE(met.ok()) << met.to_string();
    const Values got = values_of(data);
    const Chunk own = chunk_of(kCount, 4, group.rank(), 3);
    EXPECT_GT(own.size(), kCount / 4);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(got[at], i >= own.begin && i < own.end ? expected[at] : mine[at]) << i;
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

// Eight leaves on 1, 2, 4 and 8 ranks: one subtree each, the same bits.
TEST(Direct, AddsSubtreesOfLogicalShards) {
  constexpr std::int64_t kCount = 20'000;
  Values expected;
  for (const int world : {8, 4, 2}) {
    run_on_shm(
        world,
        [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
          Call call = call_of(1, 0);
          call.num_leaves = 8;
          const int each = 8 / world;
          for (int r = 0; r < world; ++r) call.leaf_runs.push_back({r * each, each});
          // What a rank adds up by itself, along the same tree.
          std::vector<Values> leaves;
          for (int i = 0; i < each; ++i) leaves.push_back(input(group.rank() * each + i, kCount, 9));
          for (int width = 1; width < each; width *= 2)
            for (std::size_t at = 0; at < leaves.size(); at += static_cast<std::size_t>(2 * width))
              for (std::size_t i = 0; i < leaves[at].size(); ++i)
                leaves[at][i] += leaves[at + static_cast<std::size_t>(width)][i];
          const Tensor partial = place(group, leaves[0], Where::kWindow);
          const std::vector<Tensor> partials{partial};
          const Status s = co_await group.allreduce_tree(call, partials, partial);
          EXPECT_TRUE(s.ok()) << s.to_string();
          if (world == 8 && group.rank() == 0) expected = values_of(partial);
          if (world != 8) {
            EXPECT_EQ(values_of(partial), expected) << world << " ranks";
          }
          const Status left = co_await group.leave();
          EXPECT_TRUE(left.ok()) << left.to_string();
        },
        /*threads=*/false);
  }
}

runtime::Task<Status> sum_of(Group& group, Call call, Tensor data) {
  co_return co_await group.allreduce(std::move(call), std::move(data));
}

TEST(Direct, RunsCallsOfManySlotsAtOnceInAnyOrder) {
  constexpr int kSlots = 9, kSteps = 3;
  run_on_shm(4, [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    std::vector<Tensor> data;
    std::vector<runtime::Task<Status>> calls;
    for (int i = 0; i < kSlots; ++i)
      for (int step = 0; step < kSteps; ++step)
        data.push_back(
            tensor_of(Values(static_cast<std::size_t>(1 + i * 4'000), static_cast<float>(1 + step))));
    // Every rank begins with another slot; the steps of a slot are in order.
    for (int i = 0; i < kSlots; ++i)
      for (int step = 0; step < kSteps; ++step) {
        const int slot = (i + 2 * group.rank()) % kSlots;
        const auto at = static_cast<std::size_t>(slot * kSteps + step);
        calls.push_back(sum_of(
            group, call_of(static_cast<std::uint16_t>(slot), static_cast<std::uint32_t>(step)), data[at]));
      }
    const Status s = co_await runtime::when_all(rt, std::move(calls));
    EXPECT_TRUE(s.ok()) << s.to_string();
    for (int i = 0; i < kSlots; ++i)
      for (int step = 0; step < kSteps; ++step) {
        const Values got = values_of(data[static_cast<std::size_t>(i * kSteps + step)]);
        EXPECT_EQ(got, Values(got.size(), static_cast<float>(4 * (1 + step)))) << i;
      }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

TEST(Direct, ServesSubGroupsAndAnySlotAfterOneMessage) {
  constexpr std::int64_t kCount = 5'000;
  const Values half = by_messages(2, kCount, 3, Reduction::kSum);
  const Values whole = by_messages(4, kCount, 3, Reduction::kSum);
  std::vector<std::vector<net::SendRecord>> sends(4);
  testing::RankOptions options;
  options.world = 4;
  options.transport = "shm";
  options.sends = &sends;
  const testing::Body body = [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const auto at = static_cast<std::size_t>(group.rank());
    // Ranks 0 and 2, 1 and 3: the numbers of the sub-group count in the sum.
    auto sub = *group.subgroup({group.rank() % 2, group.rank() % 2 + 2}, 7);
    for (std::uint32_t step = 0; step < 4; ++step) {
      const Tensor a = tensor_of(input(sub->rank(), kCount, 3));
      EXPECT_TRUE((co_await sub->allreduce(call_of(70, step, "fixed-tree"), a)).ok());
      EXPECT_EQ(values_of(a), half);
      const Tensor b = tensor_of(input(group.rank(), kCount, 3));
      EXPECT_TRUE((co_await group.allreduce(call_of(700, step, "fixed-tree"), b)).ok());
      EXPECT_EQ(values_of(b), whole);
    }
    for (const net::SendRecord& sent : sends[at]) EXPECT_LE(sent.bytes, 64U) << sent.id.to_string();
    const std::size_t num_sent = sends[at].size();
    const Tensor c = tensor_of(input(sub->rank(), kCount, 3));
    EXPECT_TRUE((co_await sub->allreduce(call_of(70, 9, "fixed-tree"), c)).ok());
    EXPECT_EQ(sends[at].size(), num_sent) << "the first call has told where the memory is";
    EXPECT_TRUE((co_await sub->leave()).ok());
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  testing::expect_finished(testing::run_virtual(options, {}, body));
  sends.assign(4, {});
  const TempDir dir;
  options.rendezvous = dir.path;
  testing::run_on_threads(options, body);
}

TEST(Direct, ShardsThatStartInAnyOrderHaveLanesOfTheirOwn) {
  run_on_shm(3, [](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    constexpr std::uint32_t kShards = 4;
    for (std::uint32_t step = 0; step < 3; ++step) {
      std::vector<Tensor> data;
      for (std::uint32_t s = 0; s < kShards; ++s)
        data.push_back(tensor_of(Values(600, static_cast<float>(s))));
      std::vector<runtime::Task<Status>> calls;
      for (std::uint32_t i = 0; i < kShards; ++i) {
        const std::uint32_t s = (i + static_cast<std::uint32_t>(group.rank())) % kShards;
        Call call = call_of(5, step * kShards + s, "fixed-tree");
        call.num_shards = kShards;
        calls.push_back(group.allreduce(call, data[s]));
      }
      EXPECT_TRUE((co_await runtime::when_all(rt, std::move(calls))).ok());
      for (std::uint32_t s = 0; s < kShards; ++s)
        EXPECT_EQ(values_of(data[s]), Values(600, static_cast<float>(3 * s))) << s;
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(Direct, CallsThatComeBeforeTheLaneIsKnownKeepTheirOrder) {
  run_on_shm(3, [](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    std::vector<Tensor> data;
    std::vector<runtime::Task<Status>> calls;
    for (std::uint32_t step = 0; step < 5; ++step) {
      data.push_back(tensor_of(Values(100, static_cast<float>(step))));
      calls.push_back(group.allreduce(call_of(900, step, "fixed-tree"), data.back()));
    }
    EXPECT_TRUE((co_await runtime::when_all(rt, std::move(calls))).ok());
    for (std::uint32_t step = 0; step < 5; ++step)
      EXPECT_EQ(values_of(data[step]), Values(100, static_cast<float>(3 * step))) << step;
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(Direct, FindsThatRanksDisagree) {
  run_on_shm(3, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const bool odd = group.rank() == 1;
    const Status s = co_await group.allreduce(call_of(2, 0), tensor_of(Values(odd ? 40 : 50, 1.0F)));
    EXPECT_EQ(s.code(), Code::kMismatch) << s.to_string();
    EXPECT_EQ(s.context().peer, 1) << s.to_string();
    const Status left = co_await group.leave();
    EXPECT_EQ(left.code(), Code::kMismatch);
  });
}

TEST(Direct, BarriersWaitForEverybody) {
  run_on_shm(3, [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    for (std::uint32_t step = 0; step < 20; ++step) {
      const TimeNs before = rt.now();
      if (group.rank() == static_cast<int>(step % 3)) co_await rt.sleep_for(2 * kMilli);
      const Status s = co_await group.barrier(call_of(5, step));
      EXPECT_TRUE(s.ok()) << s.to_string();
      if (rt.is_virtual()) {
        EXPECT_GE(rt.now() - before, 1900 * kMicro);
      }
    }
    const Status left = co_await group.leave();
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
}

TEST(Direct, OnlyTheRankThatComesLastWakesTheOthers) {
  constexpr int kWorld = 4;
  struct Free {
    void operator()(std::byte* at) const { std::free(at); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory;
  std::vector<std::byte*> parts;
  for (int r = 0; r < kWorld; ++r) {
    memory.emplace_back(static_cast<std::byte*>(std::calloc(1, Direct::window_bytes() + 64)));
    ASSERT_NE(memory.back(), nullptr);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.back().get());
    parts.push_back(memory.back().get() + (64 - at % 64) % 64);
  }
  const auto rt = runtime::make_real_runtime({});
  NoListener listener;
  std::vector<std::unique_ptr<CountingWindow>> windows;
  std::vector<std::unique_ptr<Direct>> ranks;
  for (int r = 0; r < kWorld; ++r) {
    windows.push_back(std::make_unique<CountingWindow>(parts, r));
    ranks.push_back(std::make_unique<Direct>(*rt, *windows.back(), r, kWorld, 0, listener));
  }
  for (const int r : {2, 0, 3}) {
    EXPECT_FALSE(ranks[static_cast<std::size_t>(r)]->start(0, {}));
    EXPECT_TRUE(windows[static_cast<std::size_t>(r)]->rung.empty());
    EXPECT_EQ(ranks[static_cast<std::size_t>(r)]->waits_for(0), r == 0 || r == 3 ? 1 : 0);
  }
  EXPECT_EQ(ranks[2]->waits_for(0), 1);  // rank 0 has come meanwhile
  EXPECT_TRUE(ranks[1]->start(0, {}));
  EXPECT_EQ(windows[1]->rung, (std::vector<int>{0, 2, 3}));
}

}  // namespace
}  // namespace trireme::comm
