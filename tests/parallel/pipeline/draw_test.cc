#include "trireme/parallel/pipeline/draw.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/pipeline/specs.h"

namespace trireme::parallel {
namespace {

PricedTimetable priced(const TimetableSpec& spec, const PhaseTimes& times = {1, 1, 1, 0},
                       double message = 0) {
  return *price_timetable(spec, TimetableTimes::equal(spec, times, message));
}

TEST(DrawTimetableText, ShowsStagesOverTime) {
  EXPECT_EQ(draw_text(priced({"zb-h1", 2, 1, 3})),
            "stage 0  F0 F1    B0 W0 F2 B1 W1 B2 W2 U2\n"
            "stage 1     F0 B0 F1 B1 W0 F2 B2 W1 W2 U2\n"
            "F: forward, B: backward, W: gradients of weights, U: update; number: micro-batch; - goes on. A "
            "column is 0.333.\n");
}

TEST(DrawTimetableText, ShowsVirtualStagesLongActionsAndMessages) {
  EXPECT_EQ(
      draw_text(priced({"interleaved", 1, 2, 1}, {1, 2, 1, 1})),
      "stage 0  F0a F0b B0b---- W0b B0a---- W0a U0a U0b\n"
      "F: forward, B: backward, W: gradients of weights, U: update; number: micro-batch; a, b...: virtual "
      "stage of the stage; - goes on. A column is 0.25.\n");
  EXPECT_EQ(draw_text(priced({"gpipe", 2, 1, 1}, {1, 1, 1, 0}, 1)).substr(0, 65),
            "stage 0  F0                B0 W0 U0\nstage 1        F0 B0 W0 U0\nF:");
}

TEST(DrawTimetableText, HasLettersOnlyOrSaysSoWhereColumnsDoNotSuffice) {
  const std::string letters = draw_text(priced({"1f1b", 2, 1, 12}));
  EXPECT_EQ(letters.substr(0, letters.find('\n')), "stage 0  FF  BWFBWFBWFBWFBWFBWFBWFBWFBWFBWFBW BWU");
  EXPECT_NE(letters.find("Numbers of micro-batches need more than 100 columns"), std::string::npos);
  EXPECT_EQ(draw_text(priced({"1f1b", 2, 1, 100})),
            "The drawing needs 312 columns, more than 100; take fewer micro-batches, or an SVG.\n");
  EXPECT_EQ(draw_text(priced({"1f1b", 2, 1, 4}, {})), "No action takes time.\n");
  EXPECT_NE(draw_text(priced({"async", 2, 1, 4})).find("are left out"), std::string::npos);
}

TEST(DrawTimetableText, KeepsToItsColumns) {
  for_each_spec(
      [](const TimetableRow&, const TimetableSpec& spec) {
        const std::string text = draw_text(priced(spec, {1, 1.3, 0.7, 0.1}, 0.2));
        for (std::size_t at = 0; at < text.size() && text.compare(at, 6, "stage ") == 0;) {
          const std::size_t end = text.find('\n', at);
          ASSERT_LE(end - at, kMaxDrawnColumns + 8U * static_cast<std::size_t>(spec.virtual_stages))
              << text_of(spec) << "\n"
              << text;
          at = end + 1;
        }
      },
      8, 12);
}

// No viewer here: tags close, and there is a bar per action.
TEST(DrawTimetableSvg, HasABarPerActionAndALegend) {
  for (const TimetableSpec& spec : {TimetableSpec{"zb-h2", 4, 1, 8}, TimetableSpec{"interleaved", 4, 2, 8},
                                    TimetableSpec{"async", 3, 1, 5}}) {
    const PricedTimetable p = priced(spec, {1, 1.2, 0.8, 0.3}, 0.1);
    const std::string svg = *draw_svg(p, "a < b & c");
    const auto count = [&](const std::string& what) {
      std::size_t n = 0;
      for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
      return n;
    };
    std::size_t num_actions = 0;
    for (const StageActions& actions : p.stages) num_actions += actions.size();
    EXPECT_EQ(count("class=\"bar "), num_actions) << text_of(spec);
    EXPECT_EQ(count("<g>"), count("</g>"));
    EXPECT_EQ(count("<text "), count("</text>"));
    EXPECT_EQ(count("<rect class=\"W\""), 1U);
    EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
    EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  }
}

TEST(DrawTimetableSvg, RefusesWhatNobodyCanRead) {
  EXPECT_EQ(draw_svg(priced({"1f1b", 33, 1, 2}), "").status().code(), Code::kInvalid);
  const auto long_one = draw_svg(priced({"gpipe", 2, 1, 400}), "");
  EXPECT_NE(long_one.status().message().find("too many for a readable drawing"), std::string::npos);
  EXPECT_TRUE(draw_svg(priced({"1f1b", 32, 1, 8}), "").ok());
}

}  // namespace
}  // namespace trireme::parallel
