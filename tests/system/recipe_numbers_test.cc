// What recipes say of their own numbers, with the recipe's own model and batch: only the data is replaced, by
// a few of the built-in digits.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/system/recipe_runs.h"

namespace trireme::system_test {
namespace {

constexpr int kWorkers = kRecipeWorkers;

Json trained_as_written(const Workspace& w, const std::string& recipe, int steps) {
  return train_recipe(
      w, recipe, "run",
      {"data.kind=digits", "data.path=", "data.limit_train=2048", "data.limit_test=64",
       "train.eval_steps=1000", "train.checkpoint_steps=1000", "train.steps=" + std::to_string(steps)},
      {});
}

TEST(RecipeNumbers, DistBeliefPushesEveryBucketInEveryStepOfAWorker) {
  const Workspace w;
  const Json s = trained_as_written(w, "distbelief-downpour", 10);
  const auto buckets = static_cast<std::int64_t>(w.json("run/plan.json")["buckets"].size());
  EXPECT_EQ(buckets, 2);
  EXPECT_EQ(s["rule"].value("local_steps", 0), 10 * kWorkers);
  EXPECT_EQ(s["rule"].value("pushes", std::int64_t{0}), 10 * kWorkers * buckets);
}

TEST(RecipeNumbers, PlatoonExchangesEveryTenStepsOfAWorkerAndOnceMoreAtTheMeeting) {
  const Workspace w;
  const Json s = trained_as_written(w, "platoon-easgd", 12);
  std::int64_t expected = kWorkers;  // at the end, the only meeting
  for (const Json& worker : s["per_worker"])
    expected += std::max<std::int64_t>(0, worker.value("steps", std::int64_t{0}) - 1) / 10;
  EXPECT_EQ(s["rule"].value("exchanges", std::int64_t{0}), expected) << s["per_worker"].dump();
}

TEST(RecipeNumbers, Dl4jUpdatesAreAboutASeventiethOfTheModel) {
  const Workspace w;
  const Json s = trained_as_written(w, "dl4j-threshold", 16);
  const double share = s["rule"].value("encoded_bytes", 0.0) / s["rule"].value("updates_sent", 1.0) /
                       s.value("bytes_dense_per_step", 1.0);
  EXPECT_GT(share, 1.0 / 150);
  EXPECT_LT(share, 1.0 / 40);
}

}  // namespace
}  // namespace trireme::system_test
