// A run that ends without an error and without a result says so; what starts densely, or compresses what does
// not travel, is noted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kWarning = "warning: the model has not learned: ";

// The default job on few samples.
std::vector<std::string> small_job(int steps, const std::vector<std::string>& sets,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"train",
                                "--run-dir",
                                "run",
                                "--set",
                                "data.limit_train=600",
                                "data.limit_test=100",
                                "train.steps=" + std::to_string(steps)};
  args.insert(args.end(), sets.begin(), sets.end());
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

Json trained(const Workspace& w, const std::vector<std::string>& args, std::string& out) {
  const Ran ran = w.run(args);
  EXPECT_EQ(ran.code, 0) << ran.err;
  out = ran.out;
  Json summary = w.json("run/summary.json");
  EXPECT_TRUE(summary.is_object());
  EXPECT_TRUE(summary.contains("learned"));
  return summary;
}

TEST(Learned, AnExcessiveLearningRateIsToldWithItsKey) {
  const Workspace w;
  std::string out;
  const Json s = trained(w, small_job(20, {"train.optimizer.lr=1000"}, {"--quiet"}), out);
  EXPECT_EQ(s["learned"], false);
  EXPECT_EQ(s["learned_key"], "train.optimizer.lr");
  EXPECT_THAT(out, HasSubstr(kWarning)) << "also with --quiet";
  EXPECT_THAT(out, HasSubstr("try a smaller train.optimizer.lr than 1000\n"));
}

TEST(Learned, StepsThatWereSkippedAreTold) {
  const Workspace w;
  std::string out;
  const Json s = trained(
      w, small_job(20, {"train.optimizer.lr=999999", "train.optimizer.schedule=constant", "train.nan=skip"}),
      out);
  EXPECT_GT(s.value("skipped_steps", 0), 10);
  EXPECT_EQ(s["learned"], false);
  EXPECT_THAT(out, HasSubstr("of 20 steps were skipped because the loss or a gradient was not finite"));
  EXPECT_THAT(out, HasSubstr("try a smaller train.optimizer.lr"));
}

TEST(Learned, AGoodRunSaysNothingAndAShortOneCannotTell) {
  const Workspace w;
  std::string out;
  const Json good =
      trained(w, small_job(60, {"model.name=mlp", "train.batch=32", "train.optimizer.lr=0.05"}), out);
  EXPECT_EQ(good["learned"], true) << good.dump();
  EXPECT_EQ(good["notes"], Json::array());
  EXPECT_THAT(out, Not(HasSubstr("warning")));
  const Workspace other;
  const Json tiny = trained(other, small_job(3, {}), out);
  EXPECT_TRUE(tiny["learned"].is_null());
  EXPECT_THAT(out, Not(HasSubstr("warning")));
}

TEST(Learned, PeersWhoseSamplesAreCutByClassLearnByDefault) {
  const Workspace w;
  std::string out;
  const Json s =
      trained(w,
              {"train", "--run-dir", "run", "--workers", "2", "--set", "parallel.agreement=decentralized",
               "data.partition=by-class", "data.limit_train=3840", "data.limit_test=200", "train.steps=120"},
              out);
  EXPECT_EQ(s["learned"], true) << out;
  EXPECT_LE(s["staleness"].value("max", 100), 9) << "8 clocks ahead";
  EXPECT_THAT(out,
              HasSubstr("note: train.optimizer.momentum was 0, the default of agreement 'decentralized'"));
}

TEST(Learned, RandomValuesLearnByDefault) {
  const Workspace w;
  std::string out;
  const Json s = trained(w,
                         {"train", "--run-dir", "run", "--set", "parallel.codec=randomk",
                          "data.limit_train=3840", "data.limit_test=200", "train.steps=120"},
                         out);
  EXPECT_EQ(s["learned"], true) << out;
  EXPECT_GT(s.value("test_accuracy", 0.0), 0.6) << out;
}

TEST(Codecs, DenseStepsOfTheStartAreTold) {
  const Workspace w;
  std::string out;
  const Json s =
      trained(w, small_job(12, {"parallel.codec=1bit", "model.name=mlp"}, {"--workers", "2"}), out);
  EXPECT_EQ(s["codec_dense_steps"], 50);
  EXPECT_THAT(out, HasSubstr("bsp with codec 1bit over "));
  EXPECT_THAT(out,
              HasSubstr("note: codec 1bit: nothing was encoded, because the first 50 steps are dense and the "
                        "run has 12 (parallel.codec_dense_steps)\n"));
}

TEST(Codecs, OneWorkerIsToldThatNothingTravels) {
  const Workspace w;
  std::string out;
  trained(w, small_job(12, {"parallel.codec=topk", "parallel.codec_dense_steps=0", "model.name=mlp"}), out);
  EXPECT_THAT(out,
              HasSubstr("note: codec topk with one worker: nothing travels, yet its gradients are encoded"));
}

TEST(Mistakes, KeysThatWouldDoNothingAndUnclearMessages) {
  const Workspace w;
  w.write("both.toml",
          "[model]\nname = \"lenet\"\nlayers = [{ kind = \"flatten\" }, { kind = \"classifier\" }]\n");
  w.write("windw.toml", "[model]\nlayers = [{ kind = \"conv2d\", out = 8, windw = 3 }]\n");
  w.write("open.toml", "name = \"digits\n[train]\n");
  expect_refused(
      w, {{{"train", "--set", "parallel.codec_fraction=0.1", "--workers", "2"},
           2,
           "key 'parallel.codec_fraction': got 0.1, expected it not to be set without parallel.codec; set "
           "that to one of: topk, randomk, threshold"},
          {{"train", "both.toml"},
           2,
           "key 'model.name': got \"lenet\", expected it not to be set beside model.layers; remove one of "
           "the two"},
          {{"train", "windw.toml"}, 2, "layer 0 (conv2d): unknown attribute 'windw'; did you mean 'window'?"},
          {{"train", "open.toml"}, 2, "open.toml:1:15: not valid TOML: the string is not closed"},
          {{"train", "--set", "model.options={width=64}"},
           2,
           "'lenet' has no options, got 'width'; remove model.options"}});
}

}  // namespace
}  // namespace trireme::system_test
