// The recipes of papers on a few steps of small digits: each shows in summary.json the mechanism it is named
// after.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/system/recipe_runs.h"

namespace trireme::system_test {
namespace {

constexpr int kWorkers = kRecipeWorkers;

// Runs a recipe with its own [parallel] and a small model.
Json trained(const Workspace& w, const std::string& recipe, const std::string& run_dir, int steps,
             const std::vector<std::string>& more) {
  return train_recipe(w, recipe, run_dir,
                      {"data.kind=digits", "data.path=", "data.limit_train=2400", "data.limit_test=200",
                       "model.name=mlp", "train.batch=48", "train.steps=" + std::to_string(steps)},
                      more);
}

Json trained(const Workspace& w, const std::string& recipe, int steps,
             const std::vector<std::string>& more = {}) {
  return trained(w, recipe, "run", steps, more);
}

TEST(PaperRecipes, DistBeliefPushesEveryStepStartsWithOneReplicaAndIsStale) {
  const Workspace w;
  const Json s = trained(w, "distbelief-downpour", 40);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "downpour");
  EXPECT_EQ(s.value("servers", 0), 2);
  EXPECT_TRUE(has_rank(w, 5)) << "servers are processes of their own";
  EXPECT_GT(max_staleness(s), 0);
  EXPECT_EQ(count_of(s, "pushes"), count_of(s, "local_steps")) << "n_push = 1";
  EXPECT_GE(steps_of(s, 0), 20) << "the warm start is worker 0's";
}

TEST(PaperRecipes, ParameterServersKeepWorkersTogetherWhateverTheirNumber) {
  const Workspace w;
  const Json three = trained(w, "parameter-server", 12);
  const Json one = trained(w, "parameter-server", "one", 12, {"--servers", "1"});
  ASSERT_TRUE(three.is_object() && one.is_object());
  EXPECT_EQ(three.value("agreement", ""), "bsp-server");
  EXPECT_EQ(three.value("servers", 0), 3);
  EXPECT_TRUE(has_rank(w, 6));
  EXPECT_EQ(one.value("servers", 0), 1);
  EXPECT_EQ(max_staleness(three), 0);
  EXPECT_EQ(three.value("parameters_sha256", "-"), one.value("parameters_sha256", ""));
  for (int worker = 0; worker < kWorkers; ++worker) EXPECT_EQ(steps_of(three, worker), 12) << worker;
}

TEST(PaperRecipes, ProjectAdamMayHaveReplicasOnTheWeightsOfAWorkerAndItsServersInTheWorkers) {
  const Workspace w;
  const Json s = trained(w, "project-adam", 40, {"--set", "parallel.mesh=", "parallel.local_replicas=2"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "downpour");
  EXPECT_EQ(s.value("servers", 0), 4);
  EXPECT_TRUE(has_rank(w, 3));
  EXPECT_FALSE(has_rank(w, 4)) << "servers share the workers' processes";
  EXPECT_GT(max_staleness(s), 0);
  EXPECT_EQ(count_of(s, "local_replicas"), 2);
  EXPECT_GT(count_of(s, "steps_beside_others"), 0) << "two replicas step on the same weights";
  EXPECT_GT(count_of(s, "exchanges"), 0);
  EXPECT_LE(count_of(s, "exchanges"), count_of(s, "local_steps") / 2 + kWorkers)
      << "one push for two steps; at the meeting what is left";
}

TEST(PaperRecipes, ProjectAdamMaySendFactorsThatItsServersMultiply) {
  const Workspace w;
  std::vector<std::string> more{"--transport", "tcp", "--set", "parallel.mesh="};
  for (const char* key : {"push_steps", "fetch_steps", "in_flight"})
    more.insert(more.end(), {"--set", std::string("parallel.") + key + "=1"});
  const Json dense = trained(w, "project-adam", "dense", 30, more);
  more.insert(more.end(), {"--set", "parallel.codec=factors"});
  const Json s = trained(w, "project-adam", "thin", 30, more);
  ASSERT_TRUE(s.is_object() && dense.is_object());
  EXPECT_EQ(s.value("codec", ""), "factors");
  EXPECT_FALSE(s["rule"]["factored"].empty()) << s["rule"].dump();
  EXPECT_LT(s.value("bytes_sent_per_step", 1e30), 0.8 * dense.value("bytes_sent_per_step", 0.0))
      << "pulls are whole";
}

TEST(PaperRecipes, SparkNetAveragesEveryFiftySteps) {
  const Workspace w;
  const Json s = trained(w, "sparknet", 120);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "averaging");
  EXPECT_EQ(count_of(s, "outer_steps"), 120 / 50);
  EXPECT_EQ(s["rule"].value("outer", ""), "average");
  EXPECT_LT(s.value("bytes_sent_per_step", 1e30), s.value("bytes_dense_per_step", 0.0))
      << "less than every step's gradient";
}

TEST(PaperRecipes, BlockMomentumMovesTheMeanByNesterovEveryTenSteps) {
  const Workspace w;
  const Json s = trained(w, "cntk-block-momentum", 45);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "averaging");
  EXPECT_EQ(count_of(s, "outer_steps"), 45 / 10);
  EXPECT_EQ(s["rule"].value("outer", ""), "nesterov");
  const Json again = trained(w, "cntk-block-momentum", "again", 45, {});
  const Json less = trained(w, "cntk-block-momentum", "less", 45, {"--set", "parallel.outer_momentum=0.5"});
  ASSERT_TRUE(again.is_object() && less.is_object());
  EXPECT_EQ(s.value("parameters_sha256", "-"), again.value("parameters_sha256", ""));
  EXPECT_NE(s.value("parameters_sha256", ""), less.value("parameters_sha256", ""))
      << "momentum has no effect";
}

TEST(PaperRecipes, PlatoonPullsAtTheCentreEveryTenStepsOfAWorkerOnItsOwn) {
  const Workspace w;
  const Json s = trained(w, "platoon-easgd", 100);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "easgd-async");
  EXPECT_EQ(s.value("servers", 0), 1);
  EXPECT_FALSE(has_rank(w, 4));
  // The exchange after ten steps is made as the next begins: a last one may have no step to go with. One more
  // is made at every meeting.
  std::int64_t least = 0, most = 0;
  for (int worker = 0; worker < kWorkers; ++worker) {
    most += steps_of(s, worker) / 10 + s.value("epochs", 0) + 2;
    least += std::max<std::int64_t>(0, (steps_of(s, worker) - 1) / 10);
  }
  EXPECT_GE(count_of(s, "exchanges"), least);
  EXPECT_LE(count_of(s, "exchanges"), most);
  EXPECT_GT(most, 0);
  EXPECT_GT(max_staleness(s), 0);
}

TEST(PaperRecipes, PetuumIsStaleBehindASlowWorkerButNeverBeyondTheBound) {
  const Workspace w;
  const Json s = trained(w, "petuum-ssp", 24, {"--slow", "rank=3,factor=4"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "ssp");
  EXPECT_EQ(s.value("servers", 0), 2);
  EXPECT_GT(max_staleness(s), 0);
  EXPECT_LE(max_staleness(s), 3);
  EXPECT_GT(s["rule"].value("waited_seconds", 0.0), 0.0);
}

TEST(PaperRecipes, CaffeMpiSendsEverythingThroughItsMaster) {
  const Workspace w;
  const Json s = trained(w, "caffe-mpi", 24);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "bsp-server");
  EXPECT_EQ(max_staleness(s), 0);
  EXPECT_FALSE(has_rank(w, 4)) << "the master is worker 0";
  for (int worker = 1; worker < kWorkers; ++worker)
    EXPECT_GT(sent_by(s, 0), 2 * sent_by(s, worker)) << worker;
}

TEST(PaperRecipes, HorovodSendsTheShareOfARingFromEveryRank) {
  const Workspace w;
  const Json s = trained(w, "horovod-ring", 24);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "bsp");
  EXPECT_EQ(s.value("servers", -1), 0);
  const double ring = 2.0 * (kWorkers - 1) / kWorkers * s.value("bytes_dense_per_step", 0.0);
  EXPECT_GT(ring, 0);
  EXPECT_NEAR(s.value("bytes_sent_per_step", 0.0), ring, 0.05 * ring);
  for (int worker = 1; worker < kWorkers; ++worker)
    EXPECT_NEAR(sent_by(s, worker), sent_by(s, 0), 0.05 * sent_by(s, 0)) << worker;
}

TEST(PaperRecipes, HogwildWorkersShareTheirWeightsAndSendNone) {
  const Workspace w;
  for (const bool locked : {false, true}) {
    const std::string text = locked ? "true" : "false";
    const Json s = trained(w, "hogwild", text, 40, {"--set", "parallel.locked=" + text});
    ASSERT_TRUE(s.is_object());
    EXPECT_EQ(s.value("agreement", ""), "hogwild");
    EXPECT_EQ(s["rule"].value("locked", !locked), locked);
    EXPECT_LT(s.value("bytes_sent_per_step", 1e30), 0.05 * s.value("bytes_dense_per_step", 0.0));
    std::int64_t busy = 0;
    for (int worker = 0; worker < kWorkers; ++worker) busy += steps_of(s, worker) > 0 ? 1 : 0;
    EXPECT_GT(busy, 1);
    EXPECT_GT(s.value("test_accuracy", 0.0), 0.5) << "of the one set of weights";
  }
}

// Bytes per step beside those of the same job without a codec. Messages, so that both are counted.
double share_sent(const Workspace& w, const std::string& recipe, const Json& coded, int steps) {
  const Json dense =
      trained(w, recipe, "dense", steps, {"--transport", "tcp", "--set", "parallel.codec=none"});
  return coded.value("bytes_sent_per_step", 1e30) / dense.value("bytes_sent_per_step", 1.0);
}

TEST(PaperRecipes, OneBitSgdEncodesGradientsAndTheirSumsAfterItsDenseSteps) {
  const Workspace w;
  const Json s = trained(w, "cntk-1bit", "run", 30, {"--transport", "tcp"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("codec", ""), "1bit");
  // 10 of the 30 steps are encoded: per bucket 4 messages of chunks and one of the sum of the own chunk.
  EXPECT_GT(count_of(s, "encoded_messages"), 0);
  EXPECT_EQ(count_of(s, "encoded_messages") % (10 * (kWorkers + 1)), 0);
  const Json all =
      trained(w, "cntk-1bit", "all", 30, {"--transport", "tcp", "--set", "parallel.codec_dense_steps=0"});
  EXPECT_EQ(count_of(all, "encoded_messages"), 3 * count_of(s, "encoded_messages"));
  EXPECT_LT(all.value("bytes_sent_per_step", 1e30), 0.5 * s.value("bytes_sent_per_step", 0.0));
}

TEST(PaperRecipes, OneBitAdamEncodesMomentumOnceSecondMomentsAreFixed) {
  const Workspace w;
  const auto run = [&](const char* name, const char* fixed, const char* momentum) {
    return trained(w, "onebit-adam", name, 30,
                   {"--transport", "tcp", "--set", "parallel.codec_dense_steps=10",
                    std::string("train.optimizer.fixed_after=") + fixed,
                    std::string("parallel.codec_momentum=") + momentum});
  };
  const Json s = run("run", "10", "0.9"), gradients = run("gradients", "10", "0"),
             moving = run("moving", "0", "0");
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("codec", ""), "1bit");
  EXPECT_GT(count_of(s, "encoded_messages"), 0);
  EXPECT_EQ(count_of(s, "encoded_messages") % (20 * (kWorkers + 1)), 0);
  EXPECT_EQ(count_of(s, "encoded_messages"), count_of(gradients, "encoded_messages"));
  EXPECT_NE(s["parameters_sha256"], gradients["parameters_sha256"]);
  EXPECT_NE(moving["parameters_sha256"], gradients["parameters_sha256"]);
}

TEST(PaperRecipes, SparCmlSumsFewValuesExactly) {
  const Workspace w;
  const Json s =
      trained(w, "sparcml", "run", 30, {"--transport", "tcp", "--set", "parallel.codec_warmup_steps=0"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("codec", ""), "topk");
  EXPECT_LT(share_sent(w, "sparcml", s, 30), 0.15);
}

TEST(PaperRecipes, TernGradSendsTwoBitsOfEveryValue) {
  const Workspace w;
  const Json s = trained(w, "terngrad", "run", 20, {"--transport", "tcp"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("codec", ""), "terngrad");
  // Two bits of 32, and short tensors as they are.
  const double encoded = s["rule"].value("encoded_bytes", 0.0) / 20,
               dense = s.value("bytes_dense_per_step", 0.0);
  EXPECT_GT(encoded, dense / 16);
  EXPECT_LT(encoded, dense / 10);
}

TEST(PaperRecipes, Dl4jPeersSendFewOfTheirChangesAndAllOfThemInTheEnd) {
  const Workspace w;
  const Json s = trained(w, "dl4j-threshold", "run", 40, {"--transport", "tcp"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "decentralized");
  EXPECT_EQ(s.value("codec", ""), "threshold");
  EXPECT_GT(count_of(s, "encoded_messages"), 0);
  const auto updates = static_cast<double>(count_of(s, "updates_sent"));
  EXPECT_LT(s["rule"].value("encoded_bytes", 1e30) / updates, 0.05 * s.value("bytes_dense_per_step", 0.0));
  EXPECT_LT(s["rule"].value("settle_difference", 1.0), 1e-3) << "nothing is owed at a meeting";
  EXPECT_GT(s.value("test_accuracy", 0.0), 0.5);
}

TEST(PaperRecipes, PoseidonSendsFactorsOfItsLargeLayersAndEndsInTheBitsOfDense) {
  const Workspace w;
  std::vector<std::string> more{"--transport", "tcp", "--set", "train.batch=16"};
  const Json s = trained(w, "poseidon", "thin", 20, more);
  more.insert(more.end(), {"--set", "parallel.codec=none"});
  const Json dense = trained(w, "poseidon", "dense", 20, more);
  ASSERT_TRUE(s.is_object() && dense.is_object());
  EXPECT_EQ(s.value("codec", ""), "factors");
  EXPECT_LT(s.value("bytes_sent_per_step", 1e30), 0.5 * dense.value("bytes_sent_per_step", 0.0));
  EXPECT_EQ(s.value("parameters_sha256", "none"), dense.value("parameters_sha256", ""));
}

TEST(PaperRecipes, PowerSgdSendsTwoThinMatrices) {
  const Workspace w;
  const Json s = trained(w, "powersgd", "run", 20, {"--transport", "tcp"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("codec", ""), "powersgd");
  EXPECT_LT(share_sent(w, "powersgd", s, 20), 0.3);
}

}  // namespace
}  // namespace trireme::system_test
