#include "trireme/net/judge.h"

#include <gtest/gtest.h>

#include "trireme/net/call_log.h"
#include "trireme/net/control_message.h"

namespace trireme::net {
namespace {

constexpr TimeNs kDeadline = 2 * kSecond;

RankView waiting(int peer, std::string operation, TimeNs stalled = 3 * kSecond) {
  RankView r;
  r.heard_at = 10 * kSecond;
  r.stalled_ns = stalled;
  r.waits_for = peer;
  r.operation = std::move(operation);
  return r;
}
RankView busy() {
  RankView r = waiting(-1, "");
  r.busy = true;
  r.stalled_ns = 0;
  return r;
}

CallClass way(std::uint64_t digest, std::vector<int> ranks, std::string operation = "op",
              std::vector<int> missing = {}, std::vector<std::uint64_t> serials = {}) {
  return {digest,           std::move(operation), fmt::format("call {}", digest),
          std::move(ranks), std::move(serials),   std::move(missing)};
}

TEST(Judge, ChainThatEndsAtABusyRankBlamesNobody) {
  const std::vector<RankView> ranks{waiting(1, "a"), waiting(2, "a"), busy()};
  EXPECT_FALSE(judge_stuck(ranks, 0, kDeadline));
  EXPECT_FALSE(judge_all_stuck(ranks, kDeadline));
}

TEST(Judge, ChainThatEndsAtAnIdleRankBlamesThatRank) {
  const std::vector<RankView> ranks{waiting(1, "a"), waiting(2, "b"), waiting(-1, "")};
  const auto v = judge_stuck(ranks, 0, kDeadline);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 2);
  EXPECT_EQ(v->operation, "b");
}

TEST(Judge, RankThatStandsStillForLessThanTheDeadlineIsNotBlamed) {
  const std::vector<RankView> ranks{waiting(1, "a"), waiting(-1, "", kDeadline - 1)};
  EXPECT_FALSE(judge_all_stuck(ranks, kDeadline));
}

TEST(Judge, SecondChainIsFoundWhenTheFirstIsInnocent) {
  const std::vector<RankView> ranks{waiting(1, "a"), busy(), waiting(3, "b"), waiting(-1, "")};
  const auto v = judge_all_stuck(ranks, kDeadline);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 3);
}

TEST(Judge, CircleBlamesTheRankWithTheRarestOperation) {
  const std::vector<RankView> ranks{waiting(3, "a"), waiting(0, "x"), waiting(1, "a"), waiting(2, "a")};
  const auto v = judge_stuck(ranks, 3, kDeadline);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 1);
  EXPECT_EQ(v->operation, "a");
  EXPECT_EQ(v->code, Code::kDeadline);
}

TEST(Judge, WaitingForARankThatLeftBlamesIt) {
  std::vector<RankView> ranks{waiting(1, "a"), waiting(-1, "")};
  ranks[1].left = true;
  const auto v = judge_stuck(ranks, 0, kDeadline);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 1);
}

TEST(Judge, TextsCallRanksByTheirPlacesWhereTheseAreKnown) {
  const RankNames names{{"data 0, model 0", "data 0, model 1", "data 1, model 0", "data 1, model 1"}};
  const std::vector<RankView> ranks{waiting(3, "sum"), waiting(3, "sum"), waiting(3, "sum"), waiting(-1, "")};
  const auto stuck = judge_stuck(ranks, 0, kDeadline, {}, names);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->reason, "it did not call for 2.00 s, rank 0 (data 0, model 0) waits for it");
  EXPECT_EQ(
      judge_calls(std::vector<CallClass>{way(1, {0, 1, 2}), way(2, {3})}, {}, names).reason,
      "mismatched call: rank 3 (data 1, model 1) called call 2, rank 0 (data 0, model 0) called call 1");
  EXPECT_TRUE(
      to_status(*stuck, 0, names).message().starts_with("[comm] rank 3 (data 1, model 1) is stuck in sum"));
  EXPECT_TRUE(
      to_status(*stuck, 3, names).message().starts_with("[comm] this rank (3, data 1, model 1) is stuck"));
  EXPECT_TRUE(to_status(*stuck, 3).message().starts_with("[comm] this rank (3) is stuck"));
  EXPECT_TRUE(to_notice(*stuck, 0, names).message().starts_with("[comm] rank 3 (data 1, model 1) was lost"));
  EXPECT_EQ(names.text(4), "rank 4") << "a server";
}

TEST(Judge, RankNeverHeardOfGetsTheArrivalTime) {
  std::vector<RankView> ranks{waiting(-1, ""), waiting(-1, ""), waiting(-1, "")};
  ranks[2].heard_at = -1;
  constexpr TimeNs kNow = 10 * kSecond + kSecond / 2;
  EXPECT_FALSE(judge_silence(ranks, 0, kNow, 2 * kSecond, kDeadline, 10 * kSecond));
  const auto v = judge_silence(ranks, 0, kNow, kSecond / 2, kDeadline, 10 * kSecond);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 2);
}

TEST(Judge, WhoHearsNobodyIsTheOneCutOff) {
  const std::vector<RankView> ranks{waiting(-1, ""), waiting(-1, ""), waiting(-1, "")};
  const auto v = judge_silence(ranks, 0, 12 * kSecond, 0, kDeadline, 10 * kSecond);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 0);
}

TEST(Judge, MismatchBlamesWhomMostDisagreeWith) {
  const std::vector<RankView> ranks{waiting(3, "a"), waiting(0, "a"), waiting(1, "a"), waiting(2, "a")};
  const std::vector<Disagreement> reports{{2, 1, "op of 2", "why"}, {3, 2, "op of 3", "because"}};
  const Verdict v = judge_mismatch(ranks, reports);
  EXPECT_EQ(v.culprit, 2);
  EXPECT_EQ(v.operation, "op of 3");
  EXPECT_EQ(v.code, Code::kMismatch);
}

TEST(Judge, SingleReportOfTheOddRankTurnsAgainstIt) {
  const std::vector<RankView> ranks{waiting(1, "broadcast"), waiting(0, "allreduce"),
                                    waiting(0, "allreduce")};
  const std::vector<Disagreement> reports{{0, 1, "broadcast", "why"}};
  EXPECT_EQ(judge_mismatch(ranks, reports).culprit, 0);
}

TEST(Judge, PairThatDisagreesBlamesTheSender) {
  const std::vector<RankView> ranks{waiting(1, "a"), waiting(0, "b")};
  const std::vector<Disagreement> reports{{0, 1, "a", "why"}};
  EXPECT_EQ(judge_mismatch(ranks, reports).culprit, 1);
}

TEST(Judge, ACallThatNobodyElseMadeMeetsAMessage) {
  const Disagreement reports[] = {{4, 3, "allreduce of activations", "got a message"}};
  CallClass call{7, "allreduce of activations", "allreduce of 16 f32 (sum, ring)", {4}, {9}, {0, 1, 2, 3, 5}};
  const auto v = judge_lone_caller({&call, 1}, reports);
  ASSERT_TRUE(v.has_value());
  EXPECT_EQ(v->culprit, 4);
  EXPECT_EQ(v->operation, "allreduce of activations");
  EXPECT_EQ(v->reason, "mismatched call: rank 4 called allreduce of 16 f32 (sum, ring), rank 3 did not");
  const Disagreement message[] = {{3, 4, "recv of activations", "got a collective"}};
  EXPECT_EQ(judge_lone_caller({&call, 1}, message)->culprit, 4);
  const Disagreement other[] = {{4, 3, "vote", "got a message"}};
  EXPECT_FALSE(judge_lone_caller({&call, 1}, other).has_value()) << "it is about another call";
  call.ranks = {4, 5};
  EXPECT_FALSE(judge_lone_caller({&call, 1}, reports).has_value()) << "others made it too";
  call.ranks = {4};
  call.missing = {0, 1, 2, 5};
  EXPECT_FALSE(judge_lone_caller({&call, 1}, reports).has_value()) << "the accused has made it, or has left";
}

TEST(Judge, CircleBlamesTheRankWhoseCallNobodyElseMade) {
  // Rank 0 is alone in "a" because the others are through with it; rank 1 alone made "x".
  const std::vector<RankView> ranks{waiting(1, "a"), waiting(2, "x"), waiting(0, "b"), waiting(2, "b")};
  const std::vector<CallClass> calls{way(7, {0, 2, 3}, "a"), way(8, {1}, "x"), way(9, {2, 3}, "b")};
  EXPECT_EQ(judge_stuck(ranks, 0, kDeadline, calls)->culprit, 1);
}

TEST(Judge, CircleBlamesTheRankThatSkippedACallWhichTheOthersMadeFirst) {
  // Rank 2 waits in "a" for rank 1, which is in "b" with everybody else.
  const std::vector<RankView> ranks{waiting(2, "b"), waiting(0, "b"), waiting(1, "a"), waiting(0, "b")};
  const std::vector<CallClass> calls{way(7, {0, 2, 3}, "a", {1}, {5, 5, 5}),
                                     way(8, {0, 1, 3}, "b", {2}, {6, 5, 6})};
  EXPECT_EQ(judge_stuck(ranks, 0, kDeadline, calls)->culprit, 1);
}

TEST(Judge, CircleBlamesTheMemberThatSkippedACallOfItsSubGroup) {
  // Ranks 1, 2 and 3 are a sub-group; 1 is in the next call of all instead.
  const std::vector<RankView> ranks{waiting(3, "all"), waiting(3, "all"), waiting(1, "sub"),
                                    waiting(2, "sub"), waiting(0, "all"), waiting(0, "all")};
  const std::vector<CallClass> calls{way(7, {2, 3}, "sub", {1}), way(8, {0, 1, 4, 5}, "all", {2, 3})};
  for (const int start : {1, 2, 3}) EXPECT_EQ(judge_stuck(ranks, start, kDeadline, calls)->culprit, 1);
}

TEST(Judge, CircleBlamesWhoSkippedACallAlsoWhenItIsInACallOfASubGroup) {
  // Rank 1 waits in "a" for rank 0, which is in "sub", a call of 0, 2 and 3; rank 3 made "a" before that.
  const std::vector<RankView> ranks{waiting(3, "sub"), waiting(0, "a"), waiting(1, "b"), waiting(2, "sub")};
  const std::vector<CallClass> calls{way(7, {1, 2, 3}, "a", {0}, {1, 1, 1}),
                                     way(8, {0, 3}, "sub", {2}, {3, 3}),
                                     way(9, {0, 2, 3}, "b", {1}, {2, 2, 2})};
  for (const int start : {0, 1, 2, 3}) EXPECT_EQ(judge_stuck(ranks, start, kDeadline, calls)->culprit, 0);
}

TEST(Judge, CircleBlamesTheRankInConflictWithMost) {
  // Rank 0 made a call of its own; rank 1 is through with everything, rank 2 waits for rank 0 on the way.
  const std::vector<RankView> ranks{waiting(1, "extra"), waiting(0, "end"), waiting(0, "sum")};
  const std::vector<CallClass> calls{way(7, {0}, "extra", {1, 2}), way(8, {1}, "end", {0, 2}),
                                     way(9, {1, 2}, "sum", {0})};
  for (const int start : {0, 1, 2}) EXPECT_EQ(judge_stuck(ranks, start, kDeadline, calls)->culprit, 0);
}

TEST(Judge, WhoIsNoMemberOfASubGroupDidNotSkipItsCall) {
  // Rank 3 is not in the sub-group of the others, and waits for rank 2, which waits for rank 1.
  const std::vector<RankView> ranks{waiting(3, "all"), waiting(0, "all"), waiting(1, "sub"),
                                    waiting(2, "all")};
  const std::vector<CallClass> calls{way(7, {0, 2}, "sub", {1}, {1, 1}),
                                     way(8, {0, 1, 3}, "all", {2}, {2, 1, 1})};
  for (const int start : {0, 1, 2, 3}) EXPECT_EQ(judge_stuck(ranks, start, kDeadline, calls)->culprit, 1);
}

TEST(Judge, OddCallIsBlamedAndBothAreTold) {
  const std::vector<CallClass> classes{way(7, {2}, "broadcast"), way(8, {3, 0, 1}, "allreduce")};
  EXPECT_FALSE(is_undecided(classes));
  const Verdict v = judge_calls(classes, {});
  EXPECT_EQ(v.culprit, 2);
  EXPECT_EQ(v.code, Code::kMismatch);
  EXPECT_EQ(v.operation, "allreduce");
  EXPECT_EQ(v.reason, "mismatched call: rank 2 called call 7, rank 0 called call 8");
}

TEST(Judge, OddCallIsBlamedEvenWhenItsRankAccusesAnother) {
  const std::vector<CallClass> classes{way(7, {2}), way(8, {0, 1})};
  const std::vector<Disagreement> reports{{2, 1, "op", "why"}, {2, 0, "op", "why"}};
  EXPECT_EQ(judge_calls(classes, reports).culprit, 2);
}

TEST(Judge, TwoThatDifferAreUndecidedAndTheAccusedOrElseTheHigherIsBlamed) {
  const std::vector<CallClass> classes{way(7, {0}), way(8, {1})};
  EXPECT_TRUE(is_undecided(classes));
  EXPECT_EQ(judge_calls(classes, {}).culprit, 1);
  const std::vector<Disagreement> reports{{1, 0, "op", "why"}};
  const Verdict v = judge_calls(classes, reports);
  EXPECT_EQ(v.culprit, 0);
  EXPECT_EQ(v.reason, "mismatched call: rank 0 called call 7, rank 1 called call 8");
}

// Steps repeat their calls: who alone does something new is the one that is wrong.
TEST(Judge, OfTwoThatDifferTheOneThatCalledSomethingElseInTheStepBeforeIsBlamed) {
  const std::vector<Disagreement> reports{{1, 0, "op", "why"}};
  for (const int wrong : {0, 1}) {
    std::vector<CallClass> classes{way(7, {0}), way(8, {1})};
    classes[static_cast<std::size_t>(wrong)].num_new = 1;
    for (const auto& told : {reports, {}}) {
      const Verdict v = judge_calls(classes, told);
      EXPECT_EQ(v.culprit, wrong);
      EXPECT_EQ(v.reason, fmt::format("mismatched call: rank {} called call {}, rank {} called call {}",
                                      wrong, 7 + wrong, 1 - wrong, 8 - wrong));
    }
    classes[static_cast<std::size_t>(1 - wrong)].num_new = 1;
    EXPECT_EQ(judge_calls(classes, reports).culprit, 0) << "new to both: the first step of something";
  }
  std::vector<CallClass> pairs{way(7, {0, 3}), way(8, {1, 2})};
  pairs[0].num_new = 2;
  EXPECT_EQ(judge_calls(pairs, {}).culprit, 0);
  pairs[0].num_new = 1;
  EXPECT_EQ(judge_calls(pairs, {}).culprit, 3) << "one of them did so before";
  std::vector<CallClass> many{way(7, {0}), way(8, {1, 2})};
  many[1].num_new = 2;
  EXPECT_EQ(judge_calls(many, {}).culprit, 0) << "more know better than one that changed nothing";
}

TEST(Judge, ACallThatOneRankMadeAloneNamesItsOperation) {
  const std::vector<CallClass> classes{way(kNotMade, {0, 1, 3}, ""), way(8, {2}, "barrier extra")};
  const Verdict v = judge_calls(classes, {});
  EXPECT_EQ(v.culprit, 2);
  EXPECT_EQ(v.operation, "barrier extra");
}

RankView patient(int peer, std::string operation, TimeNs stalled = 3 * kSecond) {
  RankView r = waiting(peer, std::move(operation), stalled);
  r.patient = true;
  return r;
}

TEST(Judge, ChainThatReachesARankThatWaitsForLettersBlamesNobody) {
  // 0 is in a barrier with 1, which asked 2, an idle server.
  const std::vector<RankView> ranks{waiting(1, "barrier"), patient(2, "letter"), patient(-1, "")};
  EXPECT_FALSE(judge_stuck(ranks, 0, kDeadline));
  EXPECT_FALSE(judge_all_stuck(ranks, kDeadline));
  EXPECT_FALSE(judge_standstill(ranks, 4 * kSecond));
}

TEST(Judge, WhenNobodyDoesAnythingTheEndOfTheChainIsBlamed) {
  std::vector<RankView> ranks{patient(-1, ""), waiting(2, "barrier"), patient(3, "letter"), patient(-1, "")};
  const auto v = judge_standstill(ranks, 3 * kSecond);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->culprit, 3);
  EXPECT_EQ(v->operation, "letter");
  EXPECT_EQ(v->code, Code::kDeadline);
  ranks[0] = busy();
  EXPECT_FALSE(judge_standstill(ranks, 3 * kSecond));
  ranks[0] = patient(-1, "", kSecond);
  EXPECT_FALSE(judge_standstill(ranks, 3 * kSecond));
  ranks[0].lost = true;
  EXPECT_TRUE(judge_standstill(ranks, 3 * kSecond));
  // In a circle the highest of those that are in it.
  ranks[3] = patient(1, "letter");
  EXPECT_EQ(judge_standstill(ranks, 3 * kSecond)->culprit, 3);
  ranks[3] = patient(2, "letter");
  ranks[1] = waiting(-1, "");
  EXPECT_EQ(judge_standstill(ranks, 3 * kSecond)->culprit, 3);
}

TEST(Judge, IdleRanksAreBlamedOnlyWhenOthersWantToLeave) {
  std::vector<RankView> ranks{patient(-1, "leave"), patient(-1, ""), patient(-1, "")};
  EXPECT_FALSE(judge_standstill(ranks, 3 * kSecond));
  ranks[0].left = true;
  EXPECT_EQ(judge_standstill(ranks, 3 * kSecond)->culprit, 1);
}

TEST(Judge, ALostRankIsNeitherSilentNorStuck) {
  std::vector<RankView> ranks{waiting(1, "a"), waiting(-1, ""), busy()};
  for (RankView& r : ranks) r.heard_at = 20 * kSecond;
  ranks[1].heard_at = 0;
  EXPECT_EQ(judge_silence(ranks, 0, 20 * kSecond, 0, kDeadline, kDeadline)->culprit, 1);
  ranks[1].lost = true;
  EXPECT_FALSE(judge_silence(ranks, 0, 20 * kSecond, 0, kDeadline, kDeadline));
  EXPECT_FALSE(judge_stuck(ranks, 0, kDeadline));
}

TEST(Judge, ACoordinatorThatHearsRanksWhichLeftIsNotCutOff) {
  std::vector<RankView> ranks{busy(), busy(), busy(), busy()};
  for (RankView& r : ranks) r.heard_at = 0;
  EXPECT_EQ(judge_silence(ranks, 0, 20 * kSecond, 0, kDeadline, kDeadline)->culprit, 0);
  ranks[3].left = true;
  ranks[3].heard_at = 20 * kSecond;
  EXPECT_EQ(judge_silence(ranks, 0, 20 * kSecond, 0, kDeadline, kDeadline)->culprit, 1);
}

TEST(ControlMessage, SurvivesTheTrip) {
  const ControlMessage m{.type = ControlType::kVerdict,
                         .epoch = 7,
                         .busy = true,
                         .patient = true,
                         .progress = 1ULL << 40,
                         .stalled_ns = 5,
                         .peer = 3,
                         .code = Code::kMismatch,
                         .call = 0x1234'5678'9ABC'DEF0,
                         .turn = 9,
                         .digest = 1ULL << 63,
                         .operation = "allreduce",
                         .reason = std::string(1000, 'x')};
  const Bytes bytes = encode(m);
  EXPECT_LE(bytes.size(), 1024U);
  const auto back = decode_control(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->type, m.type);
  EXPECT_EQ(back->epoch, 7U);
  EXPECT_TRUE(back->busy);
  EXPECT_TRUE(back->patient);
  EXPECT_EQ(back->progress, m.progress);
  EXPECT_EQ(back->stalled_ns, 5);
  EXPECT_EQ(back->peer, 3);
  EXPECT_EQ(back->code, Code::kMismatch);
  EXPECT_EQ(back->call, m.call);
  EXPECT_EQ(back->turn, 9U);
  EXPECT_EQ(back->digest, m.digest);
  EXPECT_EQ(back->operation, "allreduce");
  EXPECT_EQ(back->reason, std::string(400, 'x'));
}

TEST(ControlMessage, EveryTruncationAndEveryWrongTypeIsRefused) {
  Bytes bytes = encode(
      {.type = ControlType::kReport, .peer = 1, .code = Code::kPeerLost, .operation = "op", .reason = "r"});
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode_control(ByteView(bytes).first(n))) << n;
  ASSERT_TRUE(decode_control(bytes));
  for (const int type : {0, 12, 255}) {
    bytes[0] = static_cast<std::byte>(type);
    EXPECT_FALSE(decode_control(bytes)) << type;
  }
}

// A goodbye may overtake the heartbeats that were sent before it.
TEST(Judge, WhoHasLeftIsNamedOnlyByThoseWhoStillWaitADeadlineLater) {
  std::vector<RankView> ranks(2);
  ranks[0].heard_at = 10 * kSecond;
  ranks[0].stalled_ns = 3 * kSecond;
  ranks[0].waits_for = 1;
  ranks[0].operation = "broadcast";
  ranks[1].left = true;
  ranks[1].left_at = 9 * kSecond;
  EXPECT_FALSE(judge_stuck(ranks, 0, 2 * kSecond).has_value());
  ranks[0].heard_at = 11 * kSecond;
  const auto verdict = judge_stuck(ranks, 0, 2 * kSecond);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->culprit, 1);
}

}  // namespace
}  // namespace trireme::net
