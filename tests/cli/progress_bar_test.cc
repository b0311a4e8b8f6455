#include "trireme/cli/progress_bar.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::cli {
namespace {

// Columns of UTF-8 text: every character here takes one.
std::size_t columns_of(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1U : 0U;
  return n;
}

ProgressView busy() {
  ProgressView v;
  v.epoch = 12;
  v.epochs = 40;
  v.fraction = 0.57;
  v.loss = 0.1234;
  v.accuracy = 0.9712;
  v.samples_per_second = 10400;
  v.seconds_left = 125;
  return v;
}

TEST(ProgressLine, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_line(busy(), 0, false),
            "epoch 12/40  [###########         ]  57 %  loss 0.1234  accuracy 97.12 %  10.4 k samples/s  "
            "2 min 05 s left");
}

TEST(ProgressLine, FitsEveryWidth) {
  for (int columns = 2; columns <= 140; ++columns)
    for (const bool blocks : {false, true})
      EXPECT_LT(columns_of(progress_line(busy(), columns, blocks)), static_cast<std::size_t>(columns))
          << columns;
}

TEST(ProgressLine, GivesUpTheLeastImportantFirst) {
  EXPECT_EQ(progress_line(busy(), 80, false),
            "epoch 12/40  [#####     ]  57 %  loss 0.1234  accuracy 97.12 %  2 min 05 s left");
  EXPECT_EQ(progress_line(busy(), 40, false), " 57 %  loss 0.1234  accuracy 97.12 %");
  EXPECT_EQ(progress_line(busy(), 20, false), " 57 %  loss 0.1234");
}

TEST(ProgressLine, LeavesOutWhatIsNotKnownOrNotWorthSaying) {
  ProgressView v = busy();
  v.samples_per_second = 0;
  v.seconds_left = 0.008;
  v.accuracy.reset();
  EXPECT_EQ(progress_line(v, 0, false), "epoch 12/40  [###########         ]  57 %  loss 0.1234");
}

TEST(DrawBar, UsesBlocksOnlyWhereTheyAreShown) {
  EXPECT_EQ(draw_bar(0.5, 4, false), "[##  ]");
  EXPECT_EQ(draw_bar(0.5, 4, true), "│██  │");
}

// ---- The whole bar, on a terminal of the test's own

struct Screen {
  std::string text;
  int width = 0;
  Terminal terminal(bool redraws) {
    Terminal t;
    t.redraws = redraws;
    t.columns = [this] { return width; };
    t.write = [this](std::string_view s) { text += s; };
    return t;
  }
};

struct Course {
  int steps, steps_per_epoch;
  TimeNs step_time;
};

// A loss that falls from 2 to 0, an accuracy that rises from 0 to 1.
void run_course(record::Progress& bar, const Course& c) {
  plan::Plan plan;
  record::Progress::Start start;
  start.plan = &plan;
  start.total_batches = c.steps;
  start.batches_per_epoch = c.steps_per_epoch;
  bar.on_start(start);
  for (int i = 1; i <= c.steps; ++i) {
    record::Progress::Step s;
    s.step = s.batches = i;
    s.epoch = (i - 1) / c.steps_per_epoch;
    s.accuracy = static_cast<double>(i) / c.steps;
    s.loss = 2 * (1 - s.accuracy);
    s.samples = 32;
    s.now = i * c.step_time;
    bar.on_step(s);
  }
}

TEST(ProgressBar, LossAndAccuracyAreThoseOfTheLastSteps) {
  Screen screen;
  screen.width = 100;
  const auto bar = make_progress_bar(screen.terminal(true));
  run_course(*bar, {47, 47, 200 * kMilli});
  const std::string last = screen.text.substr(screen.text.rfind('\r'));
  EXPECT_NE(last.find("accuracy 98.94 %"), std::string::npos) << last;  // mean of the last two
}

TEST(ProgressBar, FirstDrawingHasNeitherRateNorTimeLeft) {
  Screen screen;
  const auto bar = make_progress_bar(screen.terminal(true));
  run_course(*bar, {1, 1, 200 * kMilli});
  EXPECT_EQ(screen.text.find("/s"), std::string::npos) << screen.text;
  EXPECT_EQ(screen.text.find("left"), std::string::npos) << screen.text;
}

TEST(ProgressBar, WithoutRedrawingShortJobsHaveNoLines) {
  Screen screen;
  const auto bar = make_progress_bar(screen.terminal(false));
  run_course(*bar, {20, 5, 10 * kMilli});
  EXPECT_EQ(screen.text, "0 parameters, 20 batches\n");
}

TEST(ProgressBar, WithoutRedrawingLongJobsHaveALineNowAndThen) {
  Screen screen;
  const auto bar = make_progress_bar(screen.terminal(false));
  run_course(*bar, {100, 100, kSecond});
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\n'), 6) << screen.text;  // start and fifths
  EXPECT_EQ(screen.text.find('\r'), std::string::npos);
  EXPECT_EQ(screen.text.find('\x1b'), std::string::npos);
}

TEST(ProgressBar, ANarrowTerminalIsAskedForItsWidthAtEveryLine) {
  Screen screen;
  screen.width = 80;
  const auto bar = make_progress_bar(screen.terminal(true));
  run_course(*bar, {3, 3, 200 * kMilli});
  screen.width = 20;
  record::Progress::Step s;
  s.step = s.batches = 3;
  s.now = 10 * kSecond;
  bar->on_step(s);
  const std::string last = screen.text.substr(screen.text.rfind('\r') + 1);
  EXPECT_LT(last.find('\x1b'), 20U) << last;
}

// ---- What a terminal can do

Terminal with(bool is_terminal, const std::map<std::string, const char*>& variables) {
  return describe_terminal(is_terminal, [variables](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second;
  });
}

TEST(Terminal, DumbOnesAndFilesAreNotDrawnOver) {
  EXPECT_TRUE(with(true, {{"TERM", "xterm"}}).redraws);
  EXPECT_FALSE(with(true, {{"TERM", "dumb"}}).redraws);
  EXPECT_FALSE(with(true, {}).redraws);
  EXPECT_FALSE(with(false, {{"TERM", "xterm"}}).redraws);
}

TEST(Terminal, BlocksNeedALocaleOfUtf8) {
  EXPECT_TRUE(with(true, {{"LANG", "en_US.UTF-8"}}).blocks);
  EXPECT_TRUE(with(true, {{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}).blocks);
  EXPECT_FALSE(with(true, {{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}).blocks);
  EXPECT_FALSE(with(true, {}).blocks);
}

TEST(StatusLine, IsDrawnOverAndGoesAway) {
  Screen screen;
  screen.width = 10;
  {
    StatusLine line(screen.terminal(true), [] { return TimeNs{0}; });
    line.show("measuring memory");
  }
  EXPECT_EQ(screen.text, "\rmeasuring\x1b[K\r\x1b[K");
}

TEST(StatusLine, WithoutRedrawingComesEveryTwoSeconds) {
  Screen screen;
  TimeNs now = 0;
  StatusLine line(screen.terminal(false), [&] { return now; });
  line.show("one");
  now = 3 * kSecond;
  line.show("two");
  line.show("three");
  EXPECT_EQ(screen.text, "two\n");
}

}  // namespace
}  // namespace trireme::cli
