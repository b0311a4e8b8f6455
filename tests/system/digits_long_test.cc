// How hard the built-in digits are, by our own training: too hard for a linear model, learnt by a small CNN,
// and again from the same bits.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

Json train(const Workspace& w, const std::string& run_dir, const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "--quiet", "--run-dir", run_dir};
  args.insert(args.end(), more.begin(), more.end());
  const Ran ran = w.run(args);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return w.json(run_dir + "/summary.json");
}

TEST(Digits, ALinearModelStaysUnderNinetyFivePercent) {
  const Workspace w;
  const Json s =
      train(w, "linear",
            {"--set", "model.name=linear", "--set", "train.epochs=10", "--set", "train.optimizer.lr=0.02"});
  EXPECT_LT(s.value("test_accuracy", 1.0), 0.95);
  EXPECT_GT(s.value("test_accuracy", 0.0), 0.80);
}

TEST(Digits, ASmallCnnPassesNinetyNinePercentWithEveryNumberOfWorkers) {
  const Workspace w;
  std::string expected;
  for (const char* workers : {"1", "2"}) {
    const Json s =
        train(w, std::string("cnn") + workers, {"--workers", workers, "--set", "train.logical_shards=2"});
    EXPECT_GE(s.value("test_accuracy", 0.0), 0.99);
    if (expected.empty()) expected = s.value("parameters_sha256", "");
    EXPECT_EQ(s.value("parameters_sha256", "-"), expected) << workers;
  }
}

}  // namespace
}  // namespace trireme::system_test
