#include "trireme/engine/vote/vote.h"

#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/parallel/cells.h"

namespace trireme::engine {
namespace {

using runtime::Task;

constexpr std::int32_t kShards = 7;

// What rank `stops` wants, rank 0 wants to save, and what gradients say.
struct Wishes {
  int stops = -1, breaks = -1;
  bool saves = false;
  float squares = 0;
};

// Losses whose sum depends on the order of additions.
float loss_of(std::int32_t shard) { return 1.0F / static_cast<float>(3 + 7 * shard); }

Task<void> vote_once(runtime::Runtime& rt, comm::Group& group, Wishes wishes, VoteOutcome& out) {
  const std::vector<collective::LeafRun> owners = parallel::even_runs(kShards, group.world());
  const collective::LeafRun own = owners[static_cast<std::size_t>(group.rank())];
  Vote vote(rt, group, nullptr, kShards, /*alone=*/false);
  EXPECT_TRUE(vote.take_shards(own).ok());
  for (std::int64_t step = 0; step < 3; ++step) {  // what a step left behind does not count in the next
    for (std::int32_t i = 0; i < own.count; ++i) {
      const std::span<float> metrics = vote.metrics(static_cast<std::size_t>(i)).values<float>();
      metrics[0] = loss_of(own.first + i);
      metrics[1] = static_cast<float>(own.first + i);
    }
    StepInput input;
    input.step = step;
    input.stop_wanted = group.rank() == wishes.stops;
    input.save_wanted = group.rank() == 0 && wishes.saves;
    vote.say(group.rank() != wishes.breaks, {wishes.squares});
    const Status cast = co_await vote.cast(input, owners);
    EXPECT_TRUE(cast.ok()) << cast.to_string();
  }
  out = vote.outcome();
  EXPECT_TRUE((co_await group.leave()).ok());
}

std::vector<VoteOutcome> outcomes(int world, const Wishes& wishes) {
  std::vector<VoteOutcome> out(static_cast<std::size_t>(world));
  comm::testing::RankOptions options;
  options.world = world;
  comm::testing::expect_finished(
      comm::testing::run_virtual(options, {}, [&](runtime::Runtime& rt, comm::Group& group) {
        return vote_once(rt, group, wishes, out[static_cast<std::size_t>(group.rank())]);
      }));
  return out;
}

TEST(Vote, HasTheSameBitsForAnyNumberOfRanks) {
  // ((0+1)+(2+3)) + ((4+5)+6)
  const float loss =
      ((loss_of(0) + loss_of(1)) + (loss_of(2) + loss_of(3))) + ((loss_of(4) + loss_of(5)) + loss_of(6));
  for (int world = 1; world <= 7; ++world)
    for (const VoteOutcome& o : outcomes(world, {})) {
      EXPECT_EQ(static_cast<float>(o.loss), loss) << world;
      EXPECT_EQ(o.correct, 21) << world;
      EXPECT_FALSE(o.stop || o.save) << world;
      EXPECT_TRUE(o.finite) << world;
    }
}

TEST(Vote, OfShardsThatAreDealtOutHasTheBitsOfRuns) {
  constexpr std::int32_t kDealt = 12;
  const auto loss = [](int world, bool dealt) {
    float known = 0;
    comm::testing::RankOptions options;
    options.world = world;
    comm::testing::expect_finished(
        comm::testing::run_virtual(options, {}, [&](runtime::Runtime& rt, comm::Group& group) -> Task<void> {
          const std::vector<collective::LeafRun> owners = parallel::even_runs(kDealt, world);
          const collective::LeafRun own = owners[static_cast<std::size_t>(group.rank())];
          Vote vote(rt, group, nullptr, kDealt, /*alone=*/false);
          if (dealt) vote.deal_shards();
          EXPECT_TRUE(vote.take_shards(own).ok());
          for (std::int64_t step = 0; step < 2; ++step) {
            for (std::int32_t k = 0; k < own.count; ++k)
              vote.metrics(static_cast<std::size_t>(k)).values<float>()[0] =
                  loss_of(dealt ? k * world + group.rank() : own.first + k);
            StepInput input;
            input.step = step;
            input.stop_wanted = group.rank() == 1;
            EXPECT_TRUE((co_await vote.cast(input, owners)).ok());
          }
          EXPECT_EQ(vote.outcome().stop, world > 1);
          known = static_cast<float>(vote.outcome().loss);
          EXPECT_TRUE((co_await group.leave()).ok());
        }));
    return known;
  };
  for (const int world : {2, 4}) EXPECT_EQ(loss(world, true), loss(1, false)) << world;
}

TEST(Vote, OneRankThatWantsToStopOrHasNoNumbersIsEnough) {
  for (int rank = 0; rank < 3; ++rank) {
    for (const VoteOutcome& o : outcomes(3, {.stops = rank})) EXPECT_TRUE(o.stop && !o.save && o.finite);
    for (const VoteOutcome& o : outcomes(3, {.breaks = rank})) EXPECT_TRUE(!o.stop && !o.finite);
  }
  for (const VoteOutcome& o : outcomes(3, {.saves = true})) EXPECT_TRUE(o.save && !o.stop);
}

TEST(Vote, GradientsThatAllRanksHoldCountOnce) {
  for (int world : {1, 2, 5})
    for (const VoteOutcome& o : outcomes(world, {.squares = 0.3F})) EXPECT_EQ(o.squares, 0.3F) << world;
}

TEST(Vote, AddsTheBatchesOfAStepUp) {
  comm::testing::RankOptions options;
  options.world = 2;
  comm::testing::expect_finished(
      comm::testing::run_virtual(options, {}, [](runtime::Runtime& rt, comm::Group& group) -> Task<void> {
        const std::vector<collective::LeafRun> owners = parallel::even_runs(2, 2);
        Vote vote(rt, group, nullptr, 2, /*alone=*/false);
        EXPECT_TRUE(vote.take_shards({group.rank(), 1}).ok());
        for (int batch = 0; batch < 3; ++batch) {
          const std::span<float> metrics = vote.metrics(0).values<float>();
          metrics[0] = 1.0F + static_cast<float>(batch);
          metrics[1] = 10.0F * static_cast<float>(batch);
          vote.keep_batch(batch == 0, batch == 2);
        }
        EXPECT_TRUE((co_await vote.cast({}, owners)).ok());
        EXPECT_EQ(vote.outcome().loss, 12);
        EXPECT_EQ(vote.outcome().correct, 60);
        EXPECT_TRUE((co_await group.leave()).ok());
      }));
}

TEST(Vote, OfAWorkerAloneIsItsOwn) {
  comm::testing::RankOptions options;
  options.world = 2;
  comm::testing::expect_finished(
      comm::testing::run_virtual(options, {}, [](runtime::Runtime& rt, comm::Group& group) -> Task<void> {
        Vote vote(rt, group, nullptr, 2, /*alone=*/true);
        EXPECT_TRUE(vote.take_shards({0, 1}).ok());
        vote.metrics(0).values<float>()[0] = static_cast<float>(group.rank());
        EXPECT_TRUE((co_await vote.cast({}, {})).ok());
        EXPECT_EQ(vote.outcome().loss, group.rank());
        EXPECT_TRUE((co_await group.leave()).ok());
      }));
}

}  // namespace
}  // namespace trireme::engine
