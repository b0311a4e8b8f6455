// The recipes of papers that cut a model over ranks or divide what replicas keep, with their own models on a
// few steps of small data: each shows in plan.json and summary.json the mechanism it is named after.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "tests/system/recipe_runs.h"

namespace trireme::system_test {
namespace {

constexpr int kWorkers = kRecipeWorkers;
constexpr double kLocalNet = 482'170, kMnistCnn = 1'663'370;  // parameters

using Words = std::vector<std::string>;

// Trains on a few of the built-in digits.
Json trained(const Workspace& w, const std::string& recipe, const std::string& run_dir, int steps, int batch,
             const Words& more = {}) {
  Words keys{"data.kind=digits",
             "data.path=",
             "data.limit_train=960",
             "data.limit_test=32",
             "train.eval_steps=1000",
             "train.checkpoint_steps=1000",
             "train.steps=" + std::to_string(steps),
             "train.batch=" + std::to_string(batch)};
  keys.insert(keys.end(), more.begin(), more.end());
  return train_recipe(w, recipe, run_dir, keys, {});
}

// Trains on a small text.
Json trained_on_text(const Workspace& w, const std::string& recipe, const std::string& run_dir, int steps,
                     const Words& more) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the bishop of " + std::to_string(i * i) + " shall not be moved\n";
  w.write("text.txt", text);
  Words keys{"data.path=text.txt",
             "data.context=16",
             "train.batch=16",
             "train.eval_steps=1000",
             "train.checkpoint_steps=1000",
             "train.steps=" + std::to_string(steps)};
  keys.insert(keys.end(), more.begin(), more.end());
  return train_recipe(w, recipe, run_dir, keys, {});
}

std::map<std::string, std::string> layouts_of(const Workspace& w, const std::string& run_dir) {
  return w.json(run_dir + "/plan.json").value("layouts", std::map<std::string, std::string>());
}

bool is_cut(const std::string& layout) { return layout.find("shard") != std::string::npos; }

// Values of gradients that a rank exchanges with other replicas, padding included.
double values_of_buckets(const Json& plan) {
  double sum = 0;
  for (const Json& bucket : plan["buckets"]) sum += bucket.value("num_elems", 0.0);
  return sum;
}

std::vector<double> peaks(const Json& summary) {
  return summary.value("peak_bytes_per_rank", std::vector<double>());
}

// What moves along the model axis in a step, as `inspect layouts` shows it.
Json moves_of(const Workspace& w, const std::string& recipe, const Words& keys) {
  Words args{"inspect", "layouts", recipe_file(recipe), "--json"};
  for (const std::string& key : keys) args.insert(args.end(), {"--set", key});
  const Ran shown = w.run(args);
  const Result<Json> json = parse_json(shown.out, "standard output");
  EXPECT_TRUE(json.ok()) << shown.err;
  return json.ok() ? (*json)["axes"].at(0)["reshards"] : Json::array();
}

const Words kDigits{"data.kind=digits", "data.path="};

TEST(PaperRecipesOnAMesh, DistBeliefCutsItsReplicasByTheImageAndPushesTheirParts) {
  const Workspace w;
  const Json s = trained(w, "distbelief", "run", 40, 32);
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "downpour");
  EXPECT_EQ(s.value("mesh", ""), "data=2,model=2");
  EXPECT_EQ(s.value("style", ""), "spatial");
  EXPECT_EQ(s.value("servers", 0), 2);
  EXPECT_TRUE(has_rank(w, 5)) << "servers are processes of their own";
  EXPECT_FALSE(has_rank(w, 6));
  ASSERT_EQ(s["per_worker"].size(), 2U) << "a replica is two ranks";
  EXPECT_GE(steps_of(s, 0), 20) << "the warm start is the first replica's";
  EXPECT_GT(max_staleness(s), 0);
  for (const auto& [name, layout] : layouts_of(w, "run")) {
    const std::string rows = name.ends_with("/weight") ? "replicate shard(0)" : "replicate shard(1)";
    const std::string read = name == "fc/weight" ? "replicate shard(1,8,7)" : "replicate replicate";
    EXPECT_EQ(layout, name.starts_with("local") ? rows : read) << name;
  }
  const Json plan = w.json("run/plan.json");
  EXPECT_GT(values_of_buckets(plan), 0.5 * kLocalNet);
  EXPECT_LT(values_of_buckets(plan), 0.55 * kLocalNet) << "a rank pushes its part";
  const auto buckets = static_cast<std::int64_t>(plan["buckets"].size());
  EXPECT_EQ(count_of(s, "pushes"), count_of(s, "local_steps") * buckets) << "n_push = 1";
}

TEST(PaperRecipesOnAMesh, CotsHpcCutsEveryFilterAndSendsEdges) {
  const Workspace w;
  const Json s = trained(w, "cots-hpc", "run", 10, 16);
  const Json whole = trained(w, "cots-hpc", "whole", 10, 16, {"parallel.style=data"});
  ASSERT_TRUE(s.is_object() && whole.is_object());
  EXPECT_EQ(s.value("mesh", ""), "data=1,model=4") << "one replica";
  const auto layouts = layouts_of(w, "run");
  EXPECT_EQ(layouts.at("local1/weight"), "replicate shard(0)");
  EXPECT_EQ(layouts.at("local2/weight"), "replicate shard(0)");
  EXPECT_EQ(layouts.at("fc/weight"), "replicate shard(1,8,7)");
  EXPECT_FALSE(is_cut(layouts_of(w, "whole").at("local2/weight")));
  EXPECT_LT(values_of_buckets(w.json("run/plan.json")), 0.3 * kLocalNet);
  EXPECT_NEAR(s.value("test_loss", 0.0), whole.value("test_loss", 1.0), 1e-3);
  EXPECT_EQ(s["bytes_by_axis"].value("data", -1.0), 0);
  EXPECT_GT(s["bytes_by_axis"].value("model", 0.0), 0);
  EXPECT_LT(s["bytes_by_axis"].value("model", 1e30), 4 * kLocalNet / 8) << "filters do not travel";
  const std::vector<double> cut = peaks(s), uncut = peaks(whole);
  ASSERT_EQ(cut.size(), std::size_t{kWorkers});
  ASSERT_EQ(uncut.size(), std::size_t{kWorkers});
  for (std::size_t r = 0; r < cut.size(); ++r) EXPECT_LT(cut[r], 0.6 * uncut[r]) << r;
}

TEST(PaperRecipesOnAMesh, MpiCaffeHasTheLayersOnRanksThatItsPinsName) {
  const Workspace w;
  const Json s = trained(w, "mpi-caffe", "run", 10, 16);
  const Json whole = trained(w, "mpi-caffe", "whole", 10, 16, {"parallel.style=data", "parallel.layouts=[]"});
  ASSERT_TRUE(s.is_object() && whole.is_object());
  EXPECT_EQ(s.value("mesh", ""), "data=1,model=4");
  for (const auto& [name, layout] : layouts_of(w, "run"))
    EXPECT_EQ(layout, name.starts_with("fc1/") ? "replicate shard(0)" : "replicate replicate") << name;
  EXPECT_FALSE(is_cut(layouts_of(w, "whole").at("fc1/weight")));
  EXPECT_NEAR(s.value("test_loss", 0.0), whole.value("test_loss", 1.0), 1e-3);
  EXPECT_EQ(s["bytes_by_axis"].value("data", -1.0), 0);
  EXPECT_GT(s["bytes_by_axis"].value("model", 0.0), 0);
  const std::vector<double> cut = peaks(s), uncut = peaks(whole);
  ASSERT_EQ(cut.size(), std::size_t{kWorkers});
  ASSERT_EQ(uncut.size(), std::size_t{kWorkers});
  for (std::size_t r = 0; r < cut.size(); ++r)
    EXPECT_LT(cut[r], 0.7 * uncut[r]) << "fc1 is most of the model; rank " << r;
  // logical_tiles: layouts by the prices of one fixed network, on any machine.
  Words keys = kDigits;
  keys.push_back("train.logical_tiles=4");
  bool broadcasts = false, gathers = false;
  for (const Json& move : moves_of(w, "mpi-caffe", keys)) {
    const std::string node = move.value("node", "");
    broadcasts = broadcasts || (node == "max_pool2d_1" && move.value("collective", "") == "allgather");
    gathers = gathers || (node == "relu_2" && move.value("from", "") == "dim 1");
  }
  EXPECT_TRUE(broadcasts) << "the units of fc1 read all that the trunk makes";
  EXPECT_TRUE(gathers) << "what they make comes together again";
}

TEST(PaperRecipesOnAMesh, MarianaSumsByLinesBetweenGroupsThatHaveOneModel) {
  const Workspace w;
  const Json s = trained(w, "mariana", "run", 10, 16);
  const Json tree = trained(w, "mariana", "tree", 10, 16, {"parallel.collective=fixed-tree"});
  ASSERT_TRUE(s.is_object() && tree.is_object());
  EXPECT_EQ(s.value("mesh", ""), "data=2,model=2");
  const Json plan = w.json("run/plan.json");
  EXPECT_FALSE(plan["buckets"].empty());
  for (const Json& bucket : plan["buckets"]) EXPECT_EQ(bucket.value("collective", ""), "linear");
  EXPECT_LT(values_of_buckets(plan), 0.55 * kMnistCnn) << "a rank exchanges its half";
  const auto layouts = layouts_of(w, "run");
  for (const char* name : {"conv1/weight", "conv2/weight", "fc1/weight", "fc2/weight"})
    EXPECT_TRUE(is_cut(layouts.at(name))) << name;
  EXPECT_GT(s["bytes_by_axis"].value("data", 0.0), 0);
  EXPECT_GT(s["bytes_by_axis"].value("model", 0.0), 0);
  EXPECT_EQ(s.value("parameters_sha256", "-"), tree.value("parameters_sha256", "")) << "a sum of two";
  EXPECT_GT(s.value("bytes_sent_per_step", 0.0), 1.5 * tree.value("bytes_sent_per_step", 1e30))
      << "in shared memory the tree reads half of what a line sends";
}

TEST(PaperRecipesOnAMesh, MarianaRunsOnATreeOfSwitches) {
  const Workspace w;
  const auto simulated = [&](const Words& more) {
    Words args{"simulate", recipe_file("mariana"), "--json", "--algorithm", "linear"};
    args.insert(args.end(), more.begin(), more.end());
    args.push_back("--set");
    args.insert(args.end(), kDigits.begin(), kDigits.end());
    const Ran ran = w.run(args);
    const Result<Json> rows = parse_json(ran.out, "standard output");
    EXPECT_TRUE(rows.ok()) << ran.err;
    return rows.ok() ? rows->at(0) : Json::object();
  };
  const Json four = simulated({"--topology", "pcie-tree,sockets=1"});
  EXPECT_EQ(four.value("algorithm", ""), "linear");
  EXPECT_EQ(four.value("ranks", 0), 4);
  EXPECT_GT(four.value("step_seconds", 0.0), four.value("compute_seconds", 1e30));
  const Json eight = simulated({"--topology", "pcie", "--mesh", "data=4,model=2"});
  EXPECT_EQ(eight.value("ranks", 0), 8);
}

TEST(PaperRecipesOnAMesh, OneWeirdTrickKeepsFiltersWholeAndCutsWhatIsFullyConnected) {
  const Workspace w;
  const Json s = trained(w, "one-weird-trick", "run", 10, 16);
  const Json at_once = trained(w, "one-weird-trick", "once", 10, 16, {"parallel.fc_scheme=broadcast"});
  ASSERT_TRUE(s.is_object() && at_once.is_object());
  EXPECT_EQ(s.value("style", ""), "one-weird-trick");
  const auto layouts = layouts_of(w, "run");
  for (const char* name : {"conv1/weight", "conv2/weight"}) EXPECT_FALSE(is_cut(layouts.at(name))) << name;
  for (const char* name : {"fc1/weight", "fc2/weight"}) EXPECT_TRUE(is_cut(layouts.at(name))) << name;
  const double data_parallel = 2.0 * (kWorkers - 1) / kWorkers * 4 * kMnistCnn;  // of a ring
  EXPECT_GT(s["bytes_by_axis"].value("model", 0.0), 0);
  EXPECT_LT(s["bytes_by_axis"].value("model", 1e30), data_parallel / 4);
  // Parts of the batch, one after the other: sums in another order, so other bits.
  EXPECT_NE(s.value("parameters_sha256", ""), at_once.value("parameters_sha256", ""));
  EXPECT_NEAR(s.value("test_loss", 0.0), at_once.value("test_loss", 1.0), 1e-3);
  const auto most_chunks = [&](const Words& more) {
    Words keys = kDigits;
    keys.insert(keys.end(), more.begin(), more.end());
    std::int64_t most = 0;
    for (const Json& move : moves_of(w, "one-weird-trick", keys))
      most = std::max(most, move.value("chunks", std::int64_t{0}));
    return most;
  };
  EXPECT_EQ(most_chunks({}), kWorkers);
  EXPECT_EQ(most_chunks({"parallel.fc_scheme=broadcast"}), 1);
}

TEST(PaperRecipesOnAMesh, ZeroThreeDividesWhatReplicasKeepAndEndsInTheBitsOfThoseThatKeepAll) {
  const Workspace w;
  // Messages, so that all bytes are counted.
  const Json s = trained_on_text(w, "zero3", "run", 10, {"parallel.transport=tcp"});
  const Json all = trained_on_text(w, "zero3", "all", 10, {"parallel.transport=tcp", "parallel.zero=0"});
  ASSERT_TRUE(s.is_object() && all.is_object());
  EXPECT_EQ(s.value("zero", 0), 3);
  EXPECT_EQ(w.json("run/plan.json").value("zero", 0), 3);
  EXPECT_EQ(s.value("parameters_sha256", "-"), all.value("parameters_sha256", ""));
  const double sent = s.value("bytes_sent_per_step", 0.0) / all.value("bytes_sent_per_step", 1e30);
  EXPECT_GT(sent, 1.4) << "parameters travel too, on the way forward and back";
  EXPECT_LT(sent, 1.8);
  const std::vector<double> divided = peaks(s), everything = peaks(all);
  ASSERT_EQ(divided.size(), std::size_t{kWorkers});
  ASSERT_EQ(everything.size(), std::size_t{kWorkers});
  for (std::size_t r = 0; r < divided.size(); ++r) EXPECT_LT(divided[r], 0.9 * everything[r]) << r;
  EXPECT_LT(divided[0], 0.6 * everything[0]) << "nobody copies the whole for a checkpoint";
}

TEST(PaperRecipesOnAMesh, ProjectAdamCutsItsReplicasAndPushesTheSumsOfTwoSteps) {
  const Workspace w;
  // logical_tiles: layouts by the prices of one fixed network, on any machine.
  const Json s = trained(w, "project-adam", "run", 40, 32, {"train.logical_tiles=2"});
  ASSERT_TRUE(s.is_object());
  EXPECT_EQ(s.value("agreement", ""), "downpour");
  EXPECT_EQ(s.value("mesh", ""), "data=2,model=2");
  EXPECT_EQ(s.value("servers", 0), 4);
  EXPECT_TRUE(has_rank(w, 3));
  EXPECT_FALSE(has_rank(w, 4)) << "servers share the workers' processes";
  ASSERT_EQ(s["per_worker"].size(), 2U) << "a replica is two ranks";
  EXPECT_TRUE(is_cut(layouts_of(w, "run").at("fc1/weight")));
  EXPECT_LT(values_of_buckets(w.json("run/plan.json")), 0.6 * kMnistCnn) << "a rank pushes its part";
  EXPECT_GT(max_staleness(s), 0);
  EXPECT_GT(count_of(s, "exchanges"), 0);
  EXPECT_LE(count_of(s, "exchanges"), count_of(s, "local_steps") / 2 + kWorkers)
      << "one push for two steps; at the meeting what is left";
}

TEST(PaperRecipesOnAMesh, MixturesOfExpertsDealOutTheirExpertsAndNothingElse) {
  const Workspace w;
  const std::string small = "model.options={layers=2, width=16, heads=2, experts=4}";
  const Json s = trained_on_text(w, "moe", "run", 20, {small});
  const Json whole = trained_on_text(w, "moe", "whole", 20, {small, "parallel.style=data"});
  ASSERT_TRUE(s.is_object() && whole.is_object());
  EXPECT_NEAR(s.value("test_loss", 0.0), whole.value("test_loss", 1.0), 1e-2);
  const auto layouts = layouts_of(w, "run");
  EXPECT_EQ(layouts.at("block1/experts/up/weight"), "replicate shard(0)");
  EXPECT_EQ(layouts.at("block1/experts/down/weight"), "replicate shard(0)");
  EXPECT_EQ(layouts.at("block1/experts/gate/weight"), "replicate replicate");
  EXPECT_EQ(layouts.at("block0/up/weight"), "replicate replicate");
  int travels = 0;
  for (const Json& move : moves_of(w, "moe", {"data.path=text.txt"})) {
    const bool is_of_experts = move.value("node", "").find("experts/reshape") != std::string::npos;
    travels += is_of_experts && move.value("collective", "") == "all_to_all" ? 1 : 0;
  }
  EXPECT_GE(travels, 2 * 4) << "tokens there and back, and their gradients, in two blocks";
}

}  // namespace
}  // namespace trireme::system_test
