// What a trained model brings along, and what a run folder does with other data and other jobs.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using Words = std::vector<std::string>;

// Rows "a,b,c,d,kind" of two classes that lie apart; `scale` multiplies every feature.
std::string table(int rows, int scale = 1, bool header = true) {
  std::string text = header ? "a,b,c,d,kind\n" : "";
  for (int i = 0; i < rows; ++i) {
    const bool tall = i % 2 == 1;
    for (int j = 0; j < 4; ++j) text += fmt::format("{},", scale * ((tall ? 40 : 10) + (7 * i + 3 * j) % 9));
    text += tall ? "tall\n" : "short\n";
  }
  return text;
}

Words train_on(const std::string& data, const Words& more = {}) {
  Words words{"train", "--quiet", "--run-dir", "r"};
  for (const std::string& set : Words{"data.kind=csv", "data.path=" + data, "model.name=mlp",
                                      "train.epochs=4", "train.batch=16", "train.optimizer.lr=0.05"})
    words.insert(words.end(), {"--set", set});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs trireme in a folder below the workspace.
Ran run_in(const Workspace& w, const std::string& folder, const std::string& arguments) {
  std::filesystem::create_directories(w / folder);
  return w.run_program({"sh", "-c", fmt::format("cd {} && exec {} {}", folder, binary_path(), arguments)});
}

TEST(ModelFiles, PredictNeedsNoTrainingData) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  w.write("new.csv", "a,b,c,d\n10,12,11,15\n44,41,47,40\n");
  const Ran with = w.run({"predict", "r", "--input", "new.csv"});
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_TRUE(has(with.out, "short") && has(with.out, "tall")) << with.out;
  std::filesystem::remove(w / "t.csv");
  const Ran without = w.run({"predict", "r", "--input", "new.csv"});
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_EQ(without.out, with.out);
  const Ran part = w.run({"predict", "r"});
  EXPECT_EQ(part.code, 1) << "samples of a part are samples of the data";
  EXPECT_TRUE(has(part.err, "--data.path")) << part.err;
}

TEST(ModelFiles, EvalFindsTheDataFromAnotherFolder) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  const Ran here = w.run({"eval", "r", "--json"}), there = run_in(w, "else/where", "eval ../../r --json");
  ASSERT_EQ(here.code, 0) << here.err;
  ASSERT_EQ(there.code, 0) << there.err;
  for (const char* key : {"loss", "accuracy", "samples"})
    EXPECT_EQ((*parse_json(there.out, "there"))[key], (*parse_json(here.out, "here"))[key]) << key;
  EXPECT_TRUE(has(there.err, "there is no t.csv here; the data is read from " + w / "t.csv")) << there.err;
  std::filesystem::rename(w / "t.csv", w / "moved.csv");
  const Ran lost = run_in(w, "else/where", "eval ../../r");
  EXPECT_EQ(lost.code, 1);
  EXPECT_TRUE(has(lost.err, "or give --data.path PATH")) << lost.err;
}

TEST(ModelFiles, ATableOfAnotherWidthIsRefusedByItsWidth) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  w.write("wine.csv", "p,q,r,s,t,u,wine\n1,2,3,4,5,6,class_0\n1,2,3,4,5,7,class_1\n");
  expect_refused(w, {{{"predict", "r", "--input", "wine.csv"}, 2, "6 features, the model was trained on 4"}});
  w.write("bare.csv", "p,q\n1,2\n3,4\n");
  expect_refused(w, {{{"predict", "r", "--input", "bare.csv"}, 2, "2 columns, the model was trained on 4"}});
}

TEST(ModelFiles, EvalSaysThatTheDataHasChangedAndNormalizesAsInTraining) {
  const Workspace w;
  std::filesystem::create_directories(w / "d");
  w.write("d/train.csv", table(60));
  w.write("d/test.csv", table(20));
  ASSERT_EQ(w.run(train_on("d")).code, 0);
  const Ran before = w.run({"eval", "r", "--json"});
  ASSERT_EQ(before.code, 0) << before.err;
  EXPECT_EQ(before.err, "");
  w.write("d/train.csv", table(64, 100));
  const Ran after = w.run({"eval", "r", "--json"});
  ASSERT_EQ(after.code, 0) << after.err;
  EXPECT_TRUE(has(after.err, "note: ") && has(after.err, "has changed since training (SHA-256 ") &&
              has(after.err, "60 training samples, now 64"))
      << after.err;
  const Result<Json> was = parse_json(before.out, "before"), is = parse_json(after.out, "after");
  ASSERT_TRUE(was.ok() && is.ok());
  EXPECT_EQ((*is)["accuracy"], (*was)["accuracy"]) << "the test samples are the same";
  EXPECT_NEAR((*is)["loss"].get<double>(), (*was)["loss"].get<double>(), 1e-4);
}

// A run is unfinished without its summary.
TEST(ModelFiles, DataThatHasChangedIsRefusedWhenARunGoesOn) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  const std::string hash = w.json("r/plan.json").value("data_sha256", "");
  ASSERT_EQ(hash.size(), 64U);
  std::filesystem::remove(w / "r/summary.json");
  w.write("t.csv", table(62));
  const Ran refused = w.run(train_on("t.csv"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_TRUE(has(refused.err, "has changed since the run in r began (SHA-256 " + hash.substr(0, 12)) &&
              has(refused.err, "training samples, now") && has(refused.err, "model.init_from=r"))
      << refused.err;
  EXPECT_EQ(w.json("r/plan.json").value("data_sha256", ""), hash);
  w.write("t.csv", table(60));
  EXPECT_EQ(w.run(train_on("t.csv")).code, 0);
}

TEST(ModelFiles, OldRunFoldersWithoutAHashOfTheirDataStillGoOn) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  Json plan = w.json("r/plan.json");
  plan.erase("data_sha256");
  plan["prediction"].erase("one_worker_seconds");
  w.write("r/plan.json", plan.dump(2));
  std::filesystem::remove(w / "r/summary.json");
  const Ran ran = w.run(train_on("t.csv"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(w.json("r/plan.json").value("data_sha256", "").size(), 64U) << "known from now on";
}

TEST(ModelFiles, AFinishedRunOfAnotherJobIsNotTakenForThisOne) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  const std::string summary = w.read("r/summary.json");
  const Ran ran = w.run(train_on("t.csv", {"--set", "train.batch=8"}));
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "r holds a finished run of a different job:\n  train.batch: 16 -> 8\n"))
      << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(w.read("r/summary.json"), summary);
}

TEST(ModelFiles, AFinishedRunIsTrainedOnForMoreEpochs) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  const Json first = w.json("r/summary.json");
  const Words longer = train_on("t.csv", {"--set", "train.epochs=6"});
  const Ran ran = w.run(longer);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json second = w.json("r/summary.json");
  EXPECT_EQ(first["epochs"], 4);
  EXPECT_EQ(second["epochs"], 6);
  EXPECT_EQ(2 * second["steps"].get<int>(), 3 * first["steps"].get<int>());
  EXPECT_NE(second["parameters_sha256"], first["parameters_sha256"]);
  int lines = 0;
  const std::string metrics = w.read("r/metrics.jsonl");
  for (std::size_t at = metrics.find("\"lr\""); at != std::string::npos; at = metrics.find("\"lr\"", at + 1))
    ++lines;
  EXPECT_EQ(lines, second["steps"]) << "one line per step, the first epochs included";
  ASSERT_EQ(w.run(longer).code, 0);
  EXPECT_EQ(w.json("r/summary.json"), second) << "it is finished now";
  const Ran shorter = w.run(train_on("t.csv"));
  EXPECT_EQ(shorter.code, 2) << shorter.out;
  EXPECT_TRUE(has(shorter.err, "train.epochs: 6 -> 4")) << shorter.err;
}

TEST(ModelFiles, ScalingEfficiencyIsToldWithWhereItComesFrom) {
  const Workspace w;
  w.write("t.csv", table(60));
  ASSERT_EQ(w.run(train_on("t.csv")).code, 0);
  const Json alone = w.json("r/summary.json");
  EXPECT_EQ(alone["scaling_efficiency"], 1);
  EXPECT_EQ(alone["scaling_efficiency_from"], "measured");
  Words two = train_on("t.csv", {"--workers", "2"});
  two[3] = "two";
  ASSERT_EQ(w.run(two).code, 0);
  const Json shared = w.json("two/summary.json");
  EXPECT_EQ(shared["scaling_efficiency_from"], "predicted");
  const double rate = w.json("two/plan.json")["prediction"].value("one_worker_seconds", 0.0);
  ASSERT_GT(rate, 0);
  EXPECT_NEAR(shared["scaling_efficiency"].get<double>(),
              shared["samples_per_second"].get<double>() / (2 * 16 / rate), 1e-9);
  EXPECT_NEAR(shared["communication_efficiency"].get<double>(),
              1 - shared["exposed_comm_fraction"].get<double>(), 1e-9);
}

// Weights that no step changes: the first evaluation stays the best one, and two more end the run.
TEST(ModelFiles, ARunStopsEarlyAndItsBestModelIsUsed) {
  const Workspace w;
  w.write("t.csv", table(60));
  Words still = train_on("t.csv", {"--set", "train.optimizer.lr=1e-30", "--set", "train.patience=2"});
  const Ran ran = w.run(still);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json summary = w.json("r/summary.json");
  EXPECT_EQ(summary["stopped_early"], true);
  EXPECT_EQ(summary["epochs"], 3);
  const int best = summary["best"].value("step", 0);
  EXPECT_EQ(3 * best, summary["steps"].get<int>());
  EXPECT_TRUE(has(ran.out, "Stopped early") && has(ran.out, "trireme eval r --best")) << ran.out;
  const Ran eval = w.run({"eval", "r", "--best", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(has(eval.err, fmt::format("the best model, after step {}: test loss", best))) << eval.err;
  EXPECT_EQ((*parse_json(eval.out, "eval"))["loss"], summary["best"]["loss"]);
  w.write("new.csv", "a,b,c,d\n10,12,11,15\n");
  EXPECT_EQ(w.run({"predict", "r", "--best", "--input", "new.csv"}).code, 0);
  expect_refused(
      w, {{{"eval", "r", "--best", "--checkpoint", "r/checkpoints"}, 2, "--checkpoint excludes --best"},
          {train_on("t.csv", {"--set", "train.patience=0"}), 2,
           "key 'train.patience': got 0, expected 1 or more evaluations"},
          {{"simulate", "--ranks", "2", "--set", "train.patience=2"},
           2,
           "train.patience: a phantom run evaluates nothing"}});
}

TEST(ModelFiles, ATraceIsRefusedWhereNoneWouldBeWritten) {
  const Workspace w;
  expect_refused(
      w, {{{"train", "--workers", "2", "--set", "parallel.agreement=ssp", "--set", "train.trace_steps=2"},
           2,
           "agreement 'ssp' writes no trace"},
          {{"simulate", "--ranks", "2", "--set", "train.trace_steps=2"},
           2,
           "a phantom run runs no kernels to trace; take --compute real"}});
}

}  // namespace
}  // namespace trireme::system_test
