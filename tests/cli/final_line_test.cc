#include "trireme/cli/final_line.h"

#include <gtest/gtest.h>

#include "trireme/cli/terminal.h"

namespace trireme::cli {
namespace {

Json finished() {
  return {{"finished", true},
          {"task", "classify"},
          {"steps", 1876},
          {"test_loss", 0.0123},
          {"test_accuracy", 0.996},
          {"wall_seconds", 24.61},
          {"samples_per_second", 10400.0}};
}

TEST(FinalLine, BeginsWithTheResult) {
  EXPECT_EQ(final_line(finished(), "runs/digits-1"),
            "Test accuracy 99.60 % after 1,876 steps (24.6 s, 10.4 k samples/s). Results: runs/digits-1");
}

TEST(FinalLine, NamesTheCodecWhereThereIsOne) {
  Json s = finished();
  s["codec"] = "none";
  EXPECT_EQ(final_line(s, "r").find("codec"), std::string::npos);
  s["codec"] = "topk";
  EXPECT_NE(final_line(s, "r").find("10.4 k samples/s, codec topk). Results: r"), std::string::npos);
}

TEST(FinalLine, SpeaksOfWhatTheTaskMeasures) {
  Json s = finished();
  s["task"] = "language";
  EXPECT_TRUE(final_line(s, "r").starts_with("Test loss 0.0123 nats per token (accuracy 99.60 %) after "));
  s["task"] = "reconstruct";
  EXPECT_TRUE(final_line(s, "r").starts_with("Test loss 0.0123 per sample after 1,876 steps"));
}

TEST(FinalLine, ClaimsNoResultWithoutTestSamples) {
  Json s = finished();
  s.erase("test_loss");
  s.erase("test_accuracy");
  s["train_loss"] = 0.5;
  EXPECT_TRUE(final_line(s, "r").starts_with(
      "No test samples (data.test = 0); training loss 0.5000 after 1,876 steps (24.6 s"));
}

TEST(FinalLine, AStoppedRunSaysHowToResume) {
  EXPECT_EQ(final_line({{"finished", false}, {"steps", 61}}, "r"),
            "Stopped after step 61. The same command resumes from there. Results: r");
}

TEST(WrapLines, BreaksAtSpacesToTheWidthOfTheTerminal) {
  EXPECT_EQ(wrap_lines("one two three\n", 0), "one two three\n") << "no terminal";
  EXPECT_EQ(wrap_lines("one two three\n", 13), "one two three\n");
  EXPECT_EQ(wrap_lines("one two three\n", 12), "one two\nthree\n");
  EXPECT_EQ(wrap_lines("one two three\nand four", 7), "one two\nthree\nand\nfour");
  EXPECT_EQ(wrap_lines("a\n\n  b c\n", 3), "a\n\n  b\nc\n");
}

TEST(WrapLines, AWordThatIsTooWideStaysWhole) {
  EXPECT_EQ(wrap_lines("in a/very/long/path it is\n", 8), "in\na/very/long/path\nit is\n");
  EXPECT_EQ(wrap_lines("   a/very/long/path\n", 8), "   a/very/long/path\n");
  EXPECT_EQ(wrap_lines("word      \n", 6), "word\n");
}

TEST(WrapLines, CountsCharactersNotBytes) {
  EXPECT_EQ(wrap_lines("äöü äöü\n", 7), "äöü äöü\n");
  EXPECT_EQ(wrap_lines("äöü äöü\n", 6), "äöü\näöü\n");
}

}  // namespace
}  // namespace trireme::cli
