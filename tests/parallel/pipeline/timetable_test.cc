#include "trireme/parallel/pipeline/timetable.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/parallel/pipeline/specs.h"

namespace trireme::parallel {
namespace {

std::string letters(const StageActions& actions) {
  std::string text;
  for (const TimetableAction& a : actions) text += fmt::format("{}{} ", phase_letter(a.phase), a.micro_batch);
  return text;
}
std::string letters_of(const char* kind, int stages, int micro_batches, int stage) {
  return letters(*build_timetable({kind, stages, 1, micro_batches}, stage));
}

TEST(TimetableTable, RowsHaveNamesOfTheirOwnAndDocs) {
  std::set<std::string> names;
  for (const TimetableRow& row : timetable_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(std::string(row.doc).back(), '.') << row.name;
    EXPECT_NE(std::string(row.paper), "") << row.name;
    EXPECT_EQ(*find_timetable_row(row.name), &row);
  }
  EXPECT_EQ(names.size(), 7U);
}

TEST(TimetableTable, TellsTheNearestName) {
  const Status missing = find_timetable_row("zbh1").status();
  EXPECT_EQ(missing.code(), Code::kInvalid);
  EXPECT_NE(missing.message().find("'zbh1'; did you mean zb-h1? Expected one of: gpipe, 1f1b"),
            std::string::npos)
      << missing.message();
}

TEST(Timetables, HaveTheOrdersOfTheirPapers) {
  EXPECT_EQ(letters_of("gpipe", 2, 2, 0), "F0 F1 B0 W0 B1 W1 U1 ");
  EXPECT_EQ(letters_of("1f1b", 2, 3, 0), "F0 F1 B0 W0 F2 B1 W1 B2 W2 U2 ");
  EXPECT_EQ(letters_of("1f1b", 2, 3, 1), "F0 B0 W0 F1 B1 W1 F2 B2 W2 U2 ");
  EXPECT_EQ(letters_of("zb-h1", 2, 3, 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2 U2 ");
  EXPECT_EQ(letters_of("zb-h2", 2, 3, 0), "F0 F1 F2 B0 W0 B1 W1 B2 W2 U2 ");
  EXPECT_EQ(letters_of("zb-h2", 2, 3, 1), "F0 B0 F1 B1 F2 B2 W0 W1 W2 U2 ");
  EXPECT_EQ(letters_of("async", 2, 3, 0), "F0 F1 B0 W0 U0 F2 B1 W1 U1 B2 W2 U2 ");
  EXPECT_EQ(letters_of("2bw", 2, 5, 1), "F0 B0 W0 F1 B1 W1 U1 F2 B2 W2 F3 B3 W3 U3 F4 B4 W4 U4 ");
  EXPECT_EQ(letters(*build_timetable({"2bw", 2, 1, 4, 3}, 1)), "F0 B0 W0 F1 B1 W1 F2 B2 W2 U2 F3 B3 W3 U3 ");
}

// Narayanan et al. 2021, figure 4: the first device with two chunks on four devices.
TEST(Timetables, InterleaveChunksByGroupsOfMicroBatches) {
  const StageActions actions = *build_timetable({"interleaved", 4, 2, 8}, 0);
  std::string forwards;
  for (const TimetableAction& a : actions)
    if (a.phase == Phase::kForward) forwards += fmt::format("{}@{} ", a.micro_batch, a.virtual_stage);
  EXPECT_EQ(forwards, "0@0 1@0 2@0 3@0 0@4 1@4 2@4 3@4 4@0 5@0 6@0 7@0 4@4 5@4 6@4 7@4 ");
  EXPECT_EQ(actions[10], (TimetableAction{Phase::kForward, 6, 0}));
  EXPECT_EQ(actions[11], (TimetableAction{Phase::kBackward, 0, 4}));
  EXPECT_EQ(actions[12], (TimetableAction{Phase::kWeights, 0, 4}));
  for (int stage = 0; stage < 3; ++stage)
    EXPECT_EQ(*build_timetable({"interleaved", 3, 1, 6}, stage), *build_timetable({"1f1b", 3, 1, 6}, stage));
}

TEST(Timetables, KeepAsManyMicroBatchesAndVersionsAsTheirPapersSay) {
  const auto row = [](const char* name) { return *find_timetable_row(name); };
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(row("gpipe")->in_flight({"gpipe", 4, 1, 12}, stage), 12);
    EXPECT_EQ(row("1f1b")->in_flight({"1f1b", 4, 1, 12}, stage), 4 - stage);
    EXPECT_EQ(row("async")->in_flight({"async", 4, 1, 12}, stage), 4 - stage);
    EXPECT_EQ(row("zb-h1")->in_flight({"zb-h1", 4, 1, 12}, stage), 4);
    EXPECT_EQ(row("zb-h2")->in_flight({"zb-h2", 4, 1, 12}, stage), 7);
    EXPECT_EQ(row("async")->weight_versions({"async", 4, 1, 12}, stage), 4 - stage);
    const TimetableSpec newest{.kind = "async", .stages = 4, .micro_batches = 12, .weight_stashing = false};
    EXPECT_EQ(row("async")->weight_versions(newest, stage), 1);
    EXPECT_EQ(row("2bw")->weight_versions({"2bw", 4, 1, 12}, stage), 2);
    EXPECT_EQ(row("zb-h2")->weight_versions({"zb-h2", 4, 1, 12}, stage), 1);
  }
}

TEST(Timetables, RefuseNumbersThatTheyCannotHave) {
  const std::vector<std::pair<TimetableSpec, const char*>> cases{
      {{"1f1b", 0, 1, 4}, "stages: got 0, expected at least 1"},
      {{"1f1b", 4, 1, 0}, "micro-batches: got 0"},
      {{"interleaved", 4, 0, 4}, "virtual stages: got 0"},
      {{"1f1b", 1 << 15, 1, 1 << 15}, "are too many"},
      {{"gpipe", 4, 2, 8}, "has one virtual stage per stage: got 2, expected 1; use interleaved"},
      {{"interleaved", 4, 2, 9}, "got 9, expected a multiple of 4; the nearest is 8"},
      {{"interleaved", 4, 2, 10}, "the nearest is 12"},
      {{"interleaved", 8, 2, 3}, "the nearest is 8"},
      {{"1f1b", 4, 1, 8, 4}, "got 4, expected 8 with timetable '1f1b'; use 2bw"},
      {{"2bw", 4, 1, 8, -1}, "got -1"},
      {{"2bw", 4, 1, 8, 3}, "got 3, expected at least 4"},
      {{"1f1b", 4, 1, 8, 0, false, false},
       "no weight stashing with timetable '1f1b'; leave it out, or use async"},
      {{"async", 4, 1, 8, 0, true, false}, "and vertical sync, whose versions are stashed"}};
  for (const auto& [spec, expected] : cases) {
    const Status status = check_timetable(spec);
    EXPECT_EQ(status.code(), Code::kInvalid) << text_of(spec);
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
    EXPECT_EQ(build_timetable(spec, 0).status().message(), status.message());
  }
}

TEST(Timetables, RunWDirectlyBehindItsBUnlessTheySplitThem) {
  for_each_spec(
      [](const TimetableRow& row, const TimetableSpec& spec) {
        if (row.splits_weights) return;
        const std::vector<StageActions> stages = *build_timetables(spec);
        for (const StageActions& actions : stages)
          for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
            const auto [phase, micro_batch, virtual_stage] = actions[i];
            if (phase != Phase::kBackward) continue;
            ASSERT_EQ(actions[i + 1], (TimetableAction{Phase::kWeights, micro_batch, virtual_stage}))
                << text_of(spec);
          }
      },
      6, 13);
}

}  // namespace
}  // namespace trireme::parallel
