// Cuts between stages: the programme against all cuts there are, and what the walk over a timetable decides.
#include "trireme/parallel/segment/stage_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Chain {
  StagePieces pieces;
  StageCutRequest request;
  std::int32_t stages = 0;
};

// A step of 1f1b with `micro_batches`.
void priced(Chain& chain, int micro_batches) {
  TimetableSpec spec;
  spec.stages = chain.stages;
  spec.micro_batches = micro_batches;
  chain.request.price = [spec](const TimetableTimes& times) -> Result<double> {
    TR_ASSIGN_OR_RETURN(const PricedTimetable walked, price_timetable(spec, times));
    return walked.price.makespan_seconds;
  };
}

Chain random_chain(std::mt19937& random) {
  const auto upto = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  Chain chain;
  const int size = 3 + upto(6);
  chain.stages = 2 + upto(std::min(4, size - 1));
  for (int i = 0; i < size; ++i) {
    const double seconds = 1 + upto(9);
    chain.pieces.seconds.push_back({seconds, seconds, seconds, 0});
    chain.pieces.bytes.push_back({upto(50), upto(20), upto(20), upto(20), upto(30)});
    if (i + 1 == size) break;
    chain.pieces.activations.push_back(upto(60));
    chain.pieces.gradients.push_back(upto(60));
    chain.pieces.entering.push_back(upto(10));
    chain.pieces.leaving.push_back(upto(10));
  }
  for (int s = 0; s < chain.stages; ++s) {
    chain.request.speeds.push_back(upto(3) == 0 ? 0.5 : 1);
    chain.request.in_flight.push_back(chain.stages - s);
  }
  for (int s = 0; s < chain.stages && size % 2 == 0; ++s) chain.request.versions.push_back(upto(3));
  chain.request.common_bytes = upto(20);
  chain.request.limit_bytes = upto(4) == 0 ? 0 : 60 + upto(400);
  return chain;
}

void each_cut(const Chain& chain, PieceRuns first, const std::function<void(const PieceRuns&)>& look) {
  if (first.size() == static_cast<std::size_t>(chain.stages)) return look(first);
  for (std::int32_t next = first.back() + 1; next < chain.pieces.size(); ++next) {
    PieceRuns more = first;
    more.push_back(next);
    each_cut(chain, more, look);
  }
}

// By its definition, with no sums kept.
std::int64_t most_bytes_of(const Chain& chain, const PieceRuns& first) {
  const StagePieces& p = chain.pieces;
  std::int64_t most = 0;
  for (std::size_t v = 0; v < first.size(); ++v) {
    const auto begin = static_cast<std::size_t>(first[v]),
               end = v + 1 < first.size() ? static_cast<std::size_t>(first[v + 1]) : p.seconds.size();
    std::int64_t held = 0, kept = 0, scratch = 0, version = 0, in_turn = 0, turns = 0;
    for (std::size_t i = begin; i < end; ++i) {
      held += p.bytes[i].held;
      kept += p.bytes[i].kept;
      scratch = std::max(scratch, p.bytes[i].scratch);
      version += p.bytes[i].version;
      in_turn = std::max(in_turn, p.bytes[i].in_turn);
      turns += p.bytes[i].in_turn;
    }
    if (begin > 0) kept += p.entering[begin - 1];
    if (end < p.seconds.size()) kept += p.leaving[end - 1];
    if (!chain.request.versions.empty()) held += chain.request.versions[v] * version;
    held += std::min(turns, 2 * in_turn);
    most = std::max(most, chain.request.common_bytes + held + scratch + chain.request.in_flight[v] * kept);
  }
  return most;
}

double longest_turn_of(const Chain& chain, const PieceRuns& first) {
  const StagePieces& p = chain.pieces;
  double longest = 0;
  for (std::size_t v = 0; v < first.size(); ++v) {
    const auto end = v + 1 < first.size() ? static_cast<std::size_t>(first[v + 1]) : p.seconds.size();
    double seconds = 0;
    for (auto i = static_cast<std::size_t>(first[v]); i < end; ++i) seconds += 3 * p.seconds[i].forward;
    longest = std::max(longest, seconds / chain.request.speeds[v]);
    if (end < p.seconds.size()) longest = std::max({longest, p.activations[end - 1], p.gradients[end - 1]});
  }
  return longest;
}

double sends_of(const Chain& chain, const PieceRuns& first) {
  double seconds = 0;
  for (std::size_t v = 1; v < first.size(); ++v) {
    const auto fence = static_cast<std::size_t>(first[v]) - 1;
    seconds += chain.pieces.activations[fence] + chain.pieces.gradients[fence];
  }
  return seconds;
}

TEST(StageCuts, TheProgrammeIsAsGoodAsTheBestOfAllCuts) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::mt19937 random(7);
  int limited = 0, without = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    Chain chain = random_chain(random);
    chain.request.pieces = &chain.pieces;
    const auto allowed = [&](const PieceRuns& cut) {
      const std::int64_t limit = chain.request.limit_bytes;
      return limit == 0 || most_bytes_of(chain, cut) <= limit;
    };
    double turn = kNever, sends = kNever;
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    each_cut(chain, {0}, [&](const PieceRuns& cut) {
      EXPECT_EQ(fits(chain.request, cut), allowed(cut));
      bytes = std::min(bytes, most_bytes_of(chain, cut));
      if (allowed(cut)) turn = std::min(turn, longest_turn_of(chain, cut));
      limited += allowed(cut) ? 0 : 1;
    });
    const PieceRuns shortest = shortest_turns(chain.request, chain.stages);
    EXPECT_EQ(most_bytes_of(chain, least_bytes(chain.request, chain.stages)), bytes);
    if (turn == kNever) {
      EXPECT_THAT(shortest, IsEmpty());
      ++without;
      continue;
    }
    ASSERT_EQ(shortest.size(), static_cast<std::size_t>(chain.stages));
    EXPECT_TRUE(allowed(shortest));
    EXPECT_EQ(longest_turn_of(chain, shortest), turn);
    each_cut(chain, {0}, [&](const PieceRuns& cut) {
      if (allowed(cut) && longest_turn_of(chain, cut) <= 1.5 * turn)
        sends = std::min(sends, sends_of(chain, cut));
    });
    const PieceRuns fewest = fewest_sends(chain.request, chain.stages, 1.5 * turn);
    EXPECT_EQ(sends_of(chain, fewest), sends);
    EXPECT_TRUE(allowed(fewest));
  }
  EXPECT_GT(limited, 0);
  EXPECT_GT(without, 0);
}

TEST(StageCuts, TheChoiceIsTheShortestStepOfAllCuts) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    Chain chain = random_chain(random);
    chain.request.pieces = &chain.pieces;
    priced(chain, 2 * chain.stages);
    PieceRuns usual;
    for (std::int32_t v = 0; v < chain.stages; ++v) usual.push_back(v);
    const auto choice = choose_stage_cuts(chain.request, usual, 0);
    ASSERT_TRUE(choice.ok()) << choice.status().to_string();
    double best = std::numeric_limits<double>::infinity();
    each_cut(chain, {0}, [&](const PieceRuns& cut) {
      if (fits(chain.request, cut))
        best = std::min(best, *chain.request.price(times_of_runs(chain.request, cut)));
    });
    EXPECT_EQ(choice->fits, best < std::numeric_limits<double>::infinity());
    if (choice->fits) {
      EXPECT_EQ(choice->seconds, best);
    }
    const auto again = choose_stage_cuts(chain.request, usual, 0);
    EXPECT_EQ(again->first, choice->first);
  }
}

// Pieces that all compute for a second each way; what passes a fence takes as long as it says.
Chain even_chain(std::vector<double> messages, std::int32_t stages) {
  Chain chain;
  chain.stages = stages;
  chain.pieces.seconds.assign(messages.size() + 1, {1, 1, 1, 0});
  chain.pieces.activations = chain.pieces.gradients = std::move(messages);
  return chain;
}

TEST(StageCuts, MoveToWhereLittleTravelsIfTheStepIsClearlyShorter) {
  Chain slow = even_chain({9, 9, 20, 1, 9}, 2);
  slow.request.pieces = &slow.pieces;
  priced(slow, 8);
  EXPECT_THAT(choose_stage_cuts(slow.request, {0, 3}, 0.05)->first, ElementsAre(0, 4));
  Chain quick = even_chain({9, 9, 9.5, 9, 9}, 2);
  quick.request.pieces = &quick.pieces;
  priced(quick, 8);
  EXPECT_THAT(choose_stage_cuts(quick.request, {0, 3}, 0.05)->first, ElementsAre(0, 3)) << "gains too little";
}

TEST(StageCuts, GiveSlowStagesLessAsTheWalkHasIt) {
  for (const std::size_t slow : {0U, 1U, 3U}) {
    Chain chain = even_chain(std::vector<double>(32, 0), 4);
    chain.request.pieces = &chain.pieces;
    chain.request.speeds.assign(4, 1);
    chain.request.speeds[slow] = 0.5;
    priced(chain, 8);
    const PieceRuns even = {0, 9, 17, 25};
    const auto choice = choose_stage_cuts(chain.request, even, 0.02);
    ASSERT_TRUE(choice.ok());
    const auto balanced = shortest_turns(chain.request, 4);
    EXPECT_LE(choice->seconds, *chain.request.price(times_of_runs(chain.request, balanced)));
    EXPECT_LT(choice->seconds, 0.75 * *chain.request.price(times_of_runs(chain.request, even)));
  }
}

// Long chains are not looked at whole, and nothing found is worse than what the programme proposes.
TEST(StageCuts, OfLongChainsAreProposedAndThenMoved) {
  std::mt19937 random(3);
  std::vector<double> messages;
  for (int i = 0; i < 119; ++i) messages.push_back(static_cast<double>(random() % 30));
  Chain chain = even_chain(std::move(messages), 8);
  chain.request.pieces = &chain.pieces;
  chain.request.actions = 8 * 32 * 3;
  priced(chain, 32);
  PieceRuns usual;
  for (std::int32_t v = 0; v < 8; ++v) usual.push_back(15 * v);
  const auto choice = choose_stage_cuts(chain.request, usual, 0);
  ASSERT_TRUE(choice.ok());
  for (const PieceRuns& cut : {usual, shortest_turns(chain.request, 8)})
    EXPECT_LE(choice->seconds, *chain.request.price(times_of_runs(chain.request, cut)));
  EXPECT_EQ(choose_stage_cuts(chain.request, usual, 0)->first, choice->first);
}

// Where timetables are so long that hardly any walk is possible, the work stays bounded.
TEST(StageCuts, AreWalkedOverAsOftenAsTheirActionsAllow) {
  constexpr std::int64_t kMost = 2'000'000;
  Chain chain = even_chain({9, 9, 20, 1, 9, 9, 9, 9, 9, 9}, 4);
  chain.request.pieces = &chain.pieces;
  priced(chain, 8);
  const auto price = chain.request.price;
  int walks = 0;
  chain.request.price = [&](const TimetableTimes& times) {
    ++walks;
    return price(times);
  };
  const PieceRuns usual = {0, 3, 6, 9};
  for (const int may : {0, 1, 5, 20}) {
    SCOPED_TRACE(may);
    walks = 0;
    chain.request.actions = may == 0 ? kMost + 1 : kMost / may;
    const auto choice = choose_stage_cuts(chain.request, usual, 0);
    ASSERT_TRUE(choice.ok()) << choice.status().to_string();
    EXPECT_LE(walks, may);
    if (may <= 1) {
      EXPECT_EQ(choice->first, usual);
    } else {
      EXPECT_NE(choice->first, usual);
    }
  }
  chain.pieces.bytes.assign(11, {10, 0, 0});
  chain.pieces.entering = chain.pieces.leaving = std::vector<std::int64_t>(10, 0);
  chain.request.in_flight = {4, 3, 2, 1};
  chain.request.limit_bytes = 30;
  chain.request.actions = kMost + 1;
  walks = 0;
  const auto unwalked = choose_stage_cuts(chain.request, {0, 2, 4, 6}, 0);
  ASSERT_TRUE(unwalked.ok());
  EXPECT_TRUE(unwalked->fits);
  EXPECT_EQ(unwalked->first, shortest_turns(chain.request, 4)) << "the usual cut has five pieces in a run";
  EXPECT_EQ(walks, 0);
}

TEST(StageCuts, ThatDoNotFitMove) {
  Chain chain = even_chain({0, 0, 0}, 2);
  chain.request.pieces = &chain.pieces;
  chain.pieces.bytes = {{10, 10, 0}, {10, 10, 0}, {10, 0, 0}, {10, 0, 0}};
  chain.pieces.entering = chain.pieces.leaving = {0, 0, 0};
  chain.request.in_flight = {2, 1};
  priced(chain, 4);
  chain.request.limit_bytes = 60;
  EXPECT_THAT(choose_stage_cuts(chain.request, {0, 2}, 0.05)->first, ElementsAre(0, 2));
  chain.request.limit_bytes = 50;
  EXPECT_THAT(choose_stage_cuts(chain.request, {0, 2}, 0.05)->first, ElementsAre(0, 1));
  chain.request.limit_bytes = 30;
  const auto none = choose_stage_cuts(chain.request, {0, 2}, 0.05);
  EXPECT_FALSE(none->fits);
  EXPECT_THAT(none->first, ElementsAre(0, 1)) << "it holds least";
}

// Four layers; the last one also reads what the first one made.
TEST(FenceBytes, AreOfAllValuesThatPass) {
  graph::Graph g;
  graph::Builder b(g);
  op::Value x = b.input("images", DType::kF32, {2, 4}), first;
  for (const char* name : {"a", "b", "c", "d"}) {
    g.push_scope(name);
    if (*name == 'd') x = b.add(x, first);
    x = b.relu(b.matmul(x, b.variable("weight", DType::kF32, {4, 4})));
    if (*name == 'a') first = x;
    g.pop_scope();
  }
  b.output("loss", b.sum(x));
  const LayerList list = layers_of(g);
  const std::vector<std::string> all = {"a/weight", "b/weight", "c/weight", "d/weight"}, late = {"c/weight"};
  const auto bytes = fence_bytes(g, list, all), frozen = fence_bytes(g, list, late);
  ASSERT_EQ(bytes.size(), 3U);
  for (const std::size_t f : {0U, 1U, 2U}) {
    const double values = f == 0 ? 1 : 2;
    EXPECT_EQ(bytes[f].forward, values * 32) << f;
    EXPECT_EQ(bytes[f].back, values * 32) << f;
    EXPECT_EQ(frozen[f].back, f == 2 ? 32 : 0) << "a frozen layer gets no gradient: " << f;
  }
}

}  // namespace
}  // namespace trireme::parallel
