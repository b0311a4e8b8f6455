// The pure parts of measuring collectives: lines between driver and ranks, figures out of rounds, bounds.
#include <gtest/gtest.h>

#include "trireme/measure/collective/driver.h"

namespace trireme::measure {
namespace {

using collective::Kind;

TEST(BenchKinds, EveryNameIsParsedBackAndDashesAreFine) {
  for (const std::string& name : kind_names()) EXPECT_EQ(collective::kind_name(*parse_kind(name)), name);
  EXPECT_EQ(*parse_kind("reduce-scatter"), Kind::kReduceScatter);
  const Status unknown = parse_kind("allredcue").status();
  EXPECT_EQ(unknown.code(), Code::kInvalid);
  EXPECT_NE(unknown.message().find("all_to_all"), std::string::npos) << unknown.message();
}

TEST(BenchLines, WorkSurvivesTheLine) {
  Work work;
  work.kind = Kind::kAllToAll;
  work.elems = 123456;
  work.in_place = false;
  work.algorithm = "ring";
  work.crowded = true;
  work.warmup = 2;
  work.calls = 77;
  const Result<Work> back = work_from_line(to_line(work));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(back->same_setup(work));
  EXPECT_EQ(to_line(*back), to_line(work));
  work.algorithm.clear();
  EXPECT_EQ(work_from_line(to_line(work))->algorithm, "");
}

TEST(BenchLines, LinesThatMakeNoSenseAreRefused) {
  for (const char* line : {"", "measure", "measure allreduce 5 in - 0 1", "measure allreduce x in - 0 1 1",
                           "measure allreduce 5 beside - 0 1 1", "measure allreduce 5 in - 0 1 1 9",
                           "measure allreduce -5 in - 0 1 1", "dance allreduce 5 in - 0 1 1"})
    EXPECT_EQ(work_from_line(line).status().code(), Code::kCorrupt) << line;
  EXPECT_EQ(times_from_line("times 1 x").status().code(), Code::kCorrupt);
  EXPECT_EQ(times_from_line("hello").status().code(), Code::kCorrupt);
}

TEST(BenchLines, TimesAndFailuresComeBack) {
  EXPECT_EQ(*times_from_line(times_line({5, 10, 7})), (std::vector<TimeNs>{5, 10, 7}));
  const Status failed = times_from_line("error rank 1 gave up").status();
  EXPECT_EQ(failed.code(), Code::kUnavailable);
  EXPECT_EQ(failed.message(), "rank 1 gave up");
}

TEST(BenchFigures, AFigureIsTheMedianOfTheRoundsWithQuartiles) {
  const Timing t = summarise({5, 1, 4, 2, 3}, 10);
  EXPECT_DOUBLE_EQ(t.median_us, 3);
  EXPECT_DOUBLE_EQ(t.low_us, 2);
  EXPECT_DOUBLE_EQ(t.high_us, 4);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.5), 1.5);
}

TEST(BenchFigures, ARatioComparesRoundByRoundSoThatSlowMinutesCancel) {
  // The third round was slow for both.
  const Ratio r = ratio_of(summarise({2, 4, 400}, 1), summarise({1, 2, 200}, 1));
  EXPECT_DOUBLE_EQ(r.median, 2);
  EXPECT_DOUBLE_EQ(r.low, 2);
  EXPECT_DOUBLE_EQ(r.high, 2);
}

Models one_us_one_byte_per_ns() {
  Models m;
  m.comm.link = {.latency_ns = 1000, .bytes_per_second = 1e9, .message_overhead_ns = 0};
  return m;
}

TEST(BenchBounds, AnAllreduceNeedsTheLatencyOfATreeAndTwiceTheOthersShare) {
  const Models m = one_us_one_byte_per_ns();
  EXPECT_NEAR(bound_us(m, Kind::kAllreduce, 4, 4000), 2 * 1 + 2 * 4.0 * 3 / 4, 1e-9);
  EXPECT_NEAR(bound_us(m, Kind::kBroadcast, 8, 4000), 3 * 1 + 4.0, 1e-9);
  EXPECT_NEAR(bound_us(m, Kind::kAllgather, 4, 4000), 2 * 1 + 4.0 * 3 / 4, 1e-9);
  EXPECT_NEAR(bound_us(m, Kind::kBarrier, 4, 0), 2, 1e-9);
  EXPECT_EQ(bound_us(m, Kind::kAllreduce, 1, 4000), 0);
}

TEST(BenchBounds, NoFormulaIsBelowTheBound) {
  const Models m = one_us_one_byte_per_ns();
  for (const double world : {2.0, 4.0, 8.0, 64.0})
    for (const double bytes : {4.0, 1e3, 1e6, 1e9})
      for (const ClosedForm& f : formulas_of(Kind::kAllreduce))
        EXPECT_GE(f.microseconds(1, 1e-3, world, bytes) * (1 + 1e-9),
                  bound_us(m, Kind::kAllreduce, static_cast<int>(world), bytes))
            << f.name << " " << world << " " << bytes;
}

TEST(BenchPredictions, SumsInSharedMemoryAreBoundByReadingOrAddingNotBoth) {
  Models m = one_us_one_byte_per_ns();
  m.peer_memory = true;
  m.comm.peer_bytes_per_second = 2e9;
  m.comm.reduce_seconds_per_byte = 1e-9;
  Work work;
  work.elems =
      1000;  // half of 4000 bytes is read and added in 2 us; copying all of them first takes 2 us more
  const Result<PredictedTime> shared = predict(m, work, 2, true), heap = predict(m, work, 2, false);
  ASSERT_TRUE(shared.ok() && heap.ok());
  EXPECT_EQ(shared->algorithm, kDirect);
  EXPECT_NEAR(shared->microseconds, 1 + 2, 1e-9);
  EXPECT_NEAR(heap->microseconds, 1 + 2 + 2, 1e-9);
}

TEST(BenchPredictions, AnAlgorithmThatIsNamedIsPricedAndAnUnknownOneRefused) {
  Models m = one_us_one_byte_per_ns();
  m.peer_memory = true;
  Work work;
  work.elems = 1000;
  work.algorithm = "ring";
  const Result<PredictedTime> ring = predict(m, work, 4, false);
  ASSERT_TRUE(ring.ok());
  EXPECT_EQ(ring->algorithm, "ring");
  EXPECT_GT(ring->microseconds, bound_us(m, Kind::kAllreduce, 4, 4000));
  work.algorithm = "magic";
  EXPECT_EQ(predict(m, work, 4, false).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace trireme::measure
