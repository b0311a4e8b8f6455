// The recipes of papers that cut a model in its depth, on a few steps of a small text: each shows in
// plan.json and summary.json, and in the bits of the result, the mechanism it is named after.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "tests/system/recipe_runs.h"

namespace trireme::system_test {
namespace {

using Words = std::vector<std::string>;

constexpr int kStages = 4, kBlocks = 4;

Words small_text(const Workspace& w, const Words& more) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the bishop of " + std::to_string(i * i) + " shall not be moved\n";
  w.write("text.txt", text);
  Words keys{"data.path=text.txt",    "data.context=16", "train.batch=16",
             "train.eval_steps=1000", "train.steps=4",   "train.checkpoint_steps=1000",
             "train.events=false"};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Json trained(const Workspace& w, const std::string& recipe, const std::string& run_dir, const Words& more,
             int workers = kStages) {
  return train_recipe(w, recipe, run_dir, small_text(w, more), {}, workers);
}

// On one worker, with the arithmetic of the stages.
Json trained_alone(const Workspace& w, const std::string& recipe, const Words& more = {}) {
  Words keys{"parallel.mesh=", "parallel.workers=1", "parallel.micro_batches=0", "train.logical_shards=8",
             "train.segments=4"};
  keys.insert(keys.end(), more.begin(), more.end());
  return trained(w, recipe, "alone", keys, 1);
}

std::string hash_of(const Json& summary) { return summary.value("parameters_sha256", ""); }

std::string layout_of(const Json& plan, const std::string& parameter) {
  return plan["layouts"].value(parameter, "");
}

std::string kind_of(const Json& plan) { return plan["pipeline"].value("kind", ""); }

std::vector<double> peaks(const Json& summary) {
  std::vector<double> bytes = summary.value("peak_bytes_per_rank", std::vector<double>());
  EXPECT_EQ(bytes.size(), std::size_t{kStages});
  bytes.resize(kStages);
  return bytes;
}

std::string block(int number) { return "block" + std::to_string(number); }

TEST(PaperRecipesInStages, GPipeKeepsAllMicroBatchesAndEndsInTheBitsOfOneWorker) {
  const Workspace w;
  const Json s = trained(w, "gpipe", "run", {});
  const Json alternating = trained(w, "gpipe", "alternating", {"parallel.pipeline=1f1b"});
  const Json alone = trained_alone(w, "gpipe");
  ASSERT_TRUE(s.is_object() && alternating.is_object() && alone.is_object());
  const Json plan = w.json("run/plan.json");
  EXPECT_EQ(kind_of(plan), "gpipe");
  for (int b = 0; b < kBlocks; ++b)
    EXPECT_EQ(layout_of(plan, block(b) + "/up/weight"), "replicate at(" + std::to_string(b) + ")");
  EXPECT_EQ(layout_of(plan, "tokens/weight"), "replicate at(0,3)") << "the last stage reads the table too";
  EXPECT_EQ(hash_of(s).size(), 64U);
  EXPECT_EQ(hash_of(s), hash_of(alone));
  EXPECT_EQ(hash_of(s), hash_of(alternating));
  // 1F1B keeps 4, 3, 2 and 1 of the 8 micro-batches.
  const std::vector<double> all = peaks(s), few = peaks(alternating);
  for (std::size_t stage = 0; stage < kStages; ++stage) EXPECT_GT(all[stage], few[stage]) << stage;
  EXPECT_GT(all[3] - few[3], 1.5 * (all[0] - few[0])) << "7 more instead of 4";
}

TEST(PaperRecipesInStages, ZeroBubbleDelaysGradientsOfWeightsAndWaitsLess) {
  const Workspace w;
  const Json s = trained(w, "zero-bubble", "run", {});
  const Json plain = trained(w, "zero-bubble", "plain", {"parallel.pipeline=1f1b"});
  ASSERT_TRUE(s.is_object() && plain.is_object());
  EXPECT_EQ(kind_of(w.json("run/plan.json")), "zb-h1");
  EXPECT_EQ(hash_of(s).size(), 64U);
  EXPECT_EQ(hash_of(s), hash_of(plain));
  const std::vector<double> delayed = peaks(s), soon = peaks(plain);
  EXPECT_NEAR(delayed[0] / soon[0], 1, 0.01) << "the first stage keeps as many";
  for (std::size_t stage = 1; stage < kStages; ++stage)
    EXPECT_GT(delayed[stage], soon[stage]) << "later stages keep as many as the first; stage " << stage;
  const auto step = [&](const std::string& kind) {
    const Ran ran = w.run({"simulate", recipe_file("zero-bubble"), "--json", "--algorithm", "ring", "--mesh",
                           "stage=4", "--set", "data.path=text.txt", "parallel.pipeline=" + kind});
    const Result<Json> rows = parse_json(ran.out, "standard output");
    EXPECT_TRUE(rows.ok()) << ran.err;
    return rows.ok() ? rows->at(0).value("step_seconds", 0.0) : 0.0;
  };
  const double waits = step("1f1b"), waits_less = step("zb-h1");
  EXPECT_GT(waits_less, 0);
  EXPECT_LT(waits_less, 0.87 * waits) << "8 + 1 units of time instead of 8 + 3";
}

TEST(PaperRecipesInStages, MegatronCutsBlocksByStagesAndTheirMatricesWithin) {
  const Workspace w;
  // logical_tiles: layouts by the prices of one fixed network, on any machine.
  const Words small{"model.options={layers=4, width=16, heads=2}", "train.logical_tiles=2"};
  const Json s = trained(w, "megatron-3d", "run", small, 8);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("mesh", ""), "data=2,stage=2,model=2");
  const Json plan = w.json("run/plan.json");
  EXPECT_EQ(kind_of(plan), "interleaved");
  EXPECT_EQ(plan["pipeline"].value("virtual_stages", 0), 2);
  for (int b = 0; b < kBlocks; ++b) {
    const std::string at = "replicate at(" + std::to_string(b % 2) + ") ";
    EXPECT_EQ(layout_of(plan, block(b) + "/attention/qkv/weight"), at + "shard(0,3)") << b;
    EXPECT_EQ(layout_of(plan, block(b) + "/up/weight"), at + "shard(0)") << "columns; block " << b;
    EXPECT_EQ(layout_of(plan, block(b) + "/down/weight"), at + "shard(1)") << "rows; block " << b;
  }
  for (const char* axis : {"data", "stage", "model"})
    EXPECT_GT(s["bytes_by_axis"].value(axis, 0.0), 0) << axis;
  EXPECT_EQ(hash_of(s).size(), 64U);
  Words alone = small;
  alone.insert(alone.end(), {"parallel.pipeline=1f1b", "parallel.virtual_stages=1"});
  EXPECT_EQ(hash_of(s), hash_of(trained_alone(w, "megatron-3d", alone)));
}

TEST(PaperRecipesInStages, PipeDreamUpdatesAfterEveryBatchByOlderGradients) {
  const Workspace w;
  const auto on_digits = [&](const std::string& run_dir, const Words& more) {
    Words keys{
        "data.kind=digits",      "data.path=",     "data.limit_train=960",        "data.limit_test=32",
        "train.eval_steps=1000", "train.steps=24", "train.checkpoint_steps=1000", "train.events=false"};
    keys.insert(keys.end(), more.begin(), more.end());
    return train_recipe(w, "pipedream", run_dir, keys, {});
  };
  const Json s = on_digits("run", {});
  const Json in_steps = on_digits("steps", {"parallel.pipeline=1f1b"});
  ASSERT_TRUE(s.is_object() && in_steps.is_object());
  EXPECT_EQ(kind_of(w.json("run/plan.json")), "async");
  EXPECT_EQ(s.value("micro_batches", 0), 1) << "a batch is a micro-batch";
  EXPECT_EQ(s["weight_versions"], Json({4, 3, 2, 1}));
  EXPECT_EQ(max_staleness(s), kStages - 1) << "at the first stage";
  EXPECT_EQ(max_staleness(in_steps), 0);
  EXPECT_NE(hash_of(s), hash_of(in_steps));
}

TEST(PaperRecipesInStages, PipeDream2BwKeepsTwoVersionsOfWeightsAndIsOneUpdateBehind) {
  const Workspace w;
  const Json s = trained(w, "pipedream-2bw", "run", {"train.steps=8"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(kind_of(w.json("run/plan.json")), "2bw");
  EXPECT_EQ(s.value("micro_batches", 0), 8) << "for an update";
  EXPECT_EQ(s["weight_versions"], Json({2, 2, 2, 2}));
  EXPECT_EQ(max_staleness(s), 1);
  EXPECT_GT(s["staleness"].value("mean", 0.0), 0.8) << "all updates but the first";
}

// A segment may take another kernel for an op than the one before, and within it some nodes yet another.
TEST(PaperRecipesInStages, GoogLeNetHasItsKernelsByNodeInEverySegment) {
  const Workspace w;
  const Ran ran = w.run({"simulate", recipe_file("googlenet"), "--json", "--algorithm", "fixed-tree",
                         "--mesh", "stage=2", "--steps", "1", "--batch-per-rank", "4", "--set",
                         "parallel.micro_batches=4", "train.segments=6"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

// Before ranks start, so no run folder is left.
TEST(PaperRecipesInStages, WeightsThatTwoStagesReadAreRefusedWhereUpdatesWouldWaitForThem) {
  const Workspace w;
  Words args{"train",
             recipe_file("pipedream-2bw"),
             "--run-dir",
             "run",
             "--set",
             "parallel.pipeline=async",
             "parallel.micro_batches=0"};
  for (const std::string& key : small_text(w, {})) args.push_back(key);
  const Ran ran = w.run(args);
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("error: 'tokens/weight' is read at stages 0 and 3"), std::string::npos) << ran.err;
  EXPECT_FALSE(std::filesystem::exists(w.path() + "/run"));
}

TEST(PaperRecipesInStages, WhatEveryWorkerWillHoldIsShown) {
  const Workspace w;
  Words args{"inspect", "model", recipe_file("gpipe"), "--set"};
  for (const std::string& key : small_text(w, {})) args.push_back(key);
  const Ran ran = w.run(args);
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (int stage = 0; stage < kStages; ++stage)
    EXPECT_NE(ran.out.find("(data 0, stage " + std::to_string(stage) + ")"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace trireme::system_test
