#include "trireme/collective/draw.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::collective {
namespace {

std::vector<RankProgram> build(const char* name, const ScheduleSpec& spec) {
  std::vector<RankProgram> programs;
  for (int r = 0; r < spec.world; ++r)
    programs.push_back(*build_program(**find_algorithm(spec.kind, name), spec, r));
  return programs;
}

ScheduleSpec spec_of(int world, std::int64_t count) {
  ScheduleSpec spec;
  spec.world = world;
  spec.count = count;
  for (int r = 0; r < world; ++r) spec.group_of.push_back(r / 2);
  return spec;
}

TEST(DrawText, ShowsARingRoundByRound) {
  const ScheduleSpec spec = spec_of(3, 300);
  EXPECT_EQ(
      draw_text(build("ring", spec), spec),
      "1.2 KiB in 3 chunks. 'c +> r': chunk c goes to rank r, which adds it. 'c -> r': to rank r, which "
      "keeps it.\n"
      "round  rank 0  rank 1  rank 2\n"
      "    1  0 +> 1  1 +> 2  2 +> 0\n"
      "    2  2 +> 1  0 +> 2  1 +> 0\n"
      "    3  1 -> 1  2 -> 2  0 -> 0\n"
      "    4  0 -> 1  1 -> 2  2 -> 0\n");
}

TEST(DrawText, ShowsOneRankOrSumsPerRoundWhereThereAreTooMany) {
  const ScheduleSpec small = spec_of(4, 400);
  const std::string one = draw_text(build("binomial", small), small, 3);
  EXPECT_EQ(one.find("rank 2"), std::string::npos) << one;
  EXPECT_NE(one.find("rank 3"), std::string::npos) << one;
  const ScheduleSpec large = spec_of(20, 400);
  const std::string sums = draw_text(build("ring", large), large);
  EXPECT_NE(sums.find("20 ranks are too many to draw (at most 16)"), std::string::npos) << sums;
  EXPECT_NE(sums.find("   38  20 messages, 1.6 KiB together, at most 80 B each"), std::string::npos) << sums;
  EXPECT_EQ(draw_text(build("ring", spec_of(1, 10)), spec_of(1, 10)), "No messages.\n");
}

// Every message of every row is drawn once, in the round its price counts.
TEST(MessagesByRound, AreThoseOfThePrograms) {
  for (const Algorithm& a : algorithm_table()) {
    ScheduleSpec spec = spec_of(6, 600);
    spec.kind = a.kind;
    if (a.kind == Kind::kBarrier) spec.count = 0;
    if (a.kind == Kind::kNeighbours) spec.edges = {{0, 1, 300}, {1, 5, 300}};
    const auto programs = build(a.name, spec);
    std::size_t num_sends = 0;
    for (const RankProgram& p : programs)
      for (const Step& s : p.steps) num_sends += s.kind == StepKind::kSend ? 1 : 0;
    const auto messages = messages_by_round(programs);
    EXPECT_EQ(messages.size(), num_sends) << a.name;
    EXPECT_EQ(messages.back().round, a.price(spec).rounds) << a.name;
    bool added = false;
    for (const DrawnMessage& m : messages) added = added || m.is_added;
    EXPECT_EQ(added, is_reduction(a.kind)) << a.name;
  }
}

// No viewer here: tags close, and there is an arrow per message, a dot per message with elements.
TEST(DrawSvg, HasALanePerRankAndAnArrowPerMessage) {
  for (const char* name : {"ring", "rabenseifner", "hierarchical", "one-shot", "fixed-tree"}) {
    const ScheduleSpec spec = spec_of(6, 60'000);
    const auto programs = build(name, spec);
    const std::string svg = *draw_svg(programs, spec, "a < b & c");
    const auto count = [&](const std::string& what) {
      std::size_t n = 0;
      for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
      return n;
    };
    const std::size_t messages = messages_by_round(programs).size();
    EXPECT_EQ(count("<polygon"), messages) << name;
    EXPECT_EQ(count("<circle"), messages + 2) << name;  // and the legend's
    EXPECT_EQ(count(">rank "), 6U) << name;
    EXPECT_EQ(count("<text"), count("</text>")) << name;
    EXPECT_EQ(count("<g>"), count("</g>")) << name;
    EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
    EXPECT_EQ(svg.rfind("</svg>\n"), svg.size() - 7);
  }
  const ScheduleSpec many = spec_of(17, 100);
  EXPECT_EQ(draw_svg(build("ring", many), many, "").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::collective
