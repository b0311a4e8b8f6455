// The pure parts of `trireme bench`: sizes, goals, distances, plots, tables.
#include <gtest/gtest.h>

#include "trireme/cli/bench/plot.h"
#include "trireme/cli/bench/report.h"
#include "trireme/cli/bench/sizes.h"

namespace trireme::cli::bench {
namespace {

using measure::BenchRow;
using measure::Models;
using measure::Ratio;
using measure::ratio_of;
using measure::Report;
using measure::summarise;
using Sizes = std::vector<std::uint64_t>;

TEST(BenchSizes, ARangeGoesUpByFourOrByTheGivenFactor) {
  EXPECT_EQ(*parse_sizes("1K..64K"), (Sizes{1024, 4096, 16384, 65536}));
  EXPECT_EQ(*parse_sizes("1K..8K*2"), (Sizes{1024, 2048, 4096, 8192}));
  EXPECT_EQ(*parse_sizes("1K..5K"), (Sizes{1024, 4096}));
}

TEST(BenchSizes, UnitsMayBeWrittenInThreeWays) {
  EXPECT_EQ(*parse_sizes("64K,64KB,64KiB"), Sizes{65536});
  EXPECT_EQ(*parse_sizes("1M,1G,4"), (Sizes{4, 1U << 20, 1U << 30}));
}

TEST(BenchSizes, NonsenseIsRefusedByName) {
  for (const char* text :
       {"", "x", "1K..", "..1K", "64K..1K", "1K..64K*1", "3", "1K,,2K", "1K..64K*", "0", "17G"})
    EXPECT_EQ(parse_sizes(text).status().code(), Code::kInvalid) << text;
  EXPECT_NE(parse_sizes("7").status().message().find("'7'"), std::string::npos);
}

TEST(BenchWorlds, AreSortedAndPositive) {
  EXPECT_EQ(*parse_worlds("8,2,4,2"), (std::vector<int>{2, 4, 8}));
  for (const char* text : {"0", "-1", "two", "", "2,", "2048"})
    EXPECT_EQ(parse_worlds(text).status().code(), Code::kInvalid) << text;
}

Models one_us_one_byte_per_ns() {
  Models m;
  m.comm.link = {.latency_ns = 1000, .bytes_per_second = 1e9, .message_overhead_ns = 0};
  return m;
}

BenchRow shm_row(std::uint64_t bytes, double theirs, double ours) {
  BenchRow row;
  row.world = 2;
  row.bytes = bytes;
  row.transport = "shm";
  row.algorithm = "ring";
  row.ours = summarise({ours, ours, ours}, 1);
  row.mpi = summarise({theirs, theirs, theirs}, 1);
  row.mpi_ratio = ratio_of(*row.mpi, row.ours);
  row.predicted_us = 1.5 * ours;
  return row;
}

TEST(BenchGoals, CountWhatIsMetAndNameTheWorst) {
  BenchRow crowded = shm_row(4096, 1, 100);
  crowded.oversubscribed = true;
  const std::vector<BenchRow> rows{shm_row(1024, 2, 1), shm_row(16384, 0.93, 1), shm_row(4U << 20, 3, 1),
                                   crowded};
  const std::vector<Goal> goals = check_goals(rows);
  ASSERT_EQ(goals.size(), 2U);
  EXPECT_EQ(goals[0].met, 1);
  EXPECT_EQ(goals[0].total, 2);  // more ranks than cores do not count
  EXPECT_EQ(goals[0].missed_beyond_spread, 1);
  EXPECT_NEAR(goals[0].worst, 0.93, 1e-9);
  EXPECT_EQ(goals[0].worst_at, "16 KB, P=2");
  EXPECT_EQ(goals[1].met, 1);
}

TEST(BenchGoals, AMissWithinTheSpreadOfTheRoundsIsNoError) {
  BenchRow row = shm_row(1024, 1, 1);
  row.mpi_ratio = Ratio{0.95, 0.9, 1.05};
  const std::vector<Goal> goals = check_goals({row});
  ASSERT_EQ(goals.size(), 1U);
  EXPECT_EQ(goals[0].met, 0);
  EXPECT_EQ(goals[0].missed_beyond_spread, 0);
}

TEST(BenchDistance, RoundsOnNearAndFarCoresAreToldApart) {
  BenchRow row = shm_row(1024, 1, 1);
  row.ours = summarise({1, 8, 1, 8}, 1);
  row.mpi = summarise({3, 4, 3, 4}, 1);
  row.crossing_ns = {100, 400, 110, 420};
  const std::vector<Distance> found = by_distance({row});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "near");
  EXPECT_DOUBLE_EQ(found[0].share, 0.5);
  ASSERT_EQ(found[0].entries.size(), 1U);
  EXPECT_DOUBLE_EQ(found[0].entries[0].ours_us, 1);
  EXPECT_DOUBLE_EQ(found[0].entries[0].mpi_ratio, 3);
  EXPECT_DOUBLE_EQ(found[0].entries[0].gloo_ratio, 0);
  EXPECT_DOUBLE_EQ(found[1].entries[0].mpi_ratio, 0.5);
}

TEST(BenchDistance, RoundsThatAreAlikeStayTogether) {
  BenchRow row = shm_row(1024, 1, 1);
  row.crossing_ns = {100, 120, 110};
  EXPECT_TRUE(by_distance({row}).empty());
  EXPECT_TRUE(by_distance({}).empty());
}

TEST(BenchPlot, TheScriptHasEverySideAndFormulaOnce) {
  measure::BenchOptions options;
  options.worlds = {2};
  options.models = [](int) { return one_us_one_byte_per_ns(); };
  options.own.transport = "shm";
  const Report report{{shm_row(1024, 2, 1), shm_row(4096, 5, 3)}, {}};
  const std::string script = plot_script(report, options, "it's.svg");
  for (const char* text : {"title 'ours'", "title 'Open MPI'", "title 'ring (formula)'",
                           "title 'lower bound'", "set output 'it''s.svg'", "set terminal svg"}) {
    const std::size_t at = script.find(text);
    ASSERT_NE(at, std::string::npos) << text << "\n" << script;
    EXPECT_EQ(script.find(text, at + 1), std::string::npos) << text;
  }
  EXPECT_EQ(script.find("Gloo"), std::string::npos);
  EXPECT_TRUE(check_plot_path("a.png").ok());
  EXPECT_EQ(check_plot_path("a.pdf").code(), Code::kInvalid);
}

TEST(BenchReport, PredictionErrorIsRelativeToTheMeasurement) {
  const PredictionError e = prediction_error({shm_row(1024, 1, 1), shm_row(4096, 1, 8)});
  EXPECT_NEAR(e.median, 0.5, 1e-9);
  EXPECT_NEAR(e.p90, 0.5, 1e-9);
}

TEST(BenchReport, RowsOfTheTableLineUpWithTheHeader) {
  measure::BenchOptions options;
  options.against = {"mpi", "gloo"};
  const std::string header = table_header(options), row = table_row(shm_row(1U << 20, 250, 100), options);
  EXPECT_EQ(header.size(), row.size()) << header << row;
  EXPECT_NE(row.find("2.50x"), std::string::npos) << row;
}

}  // namespace
}  // namespace trireme::cli::bench
