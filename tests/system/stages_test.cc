// `inspect stages`, as a user meets it, and beside it what a run of the same job reports.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

constexpr const char* kJob = R"([train]
batch = 64
steps = 3
[data]
limit_train = 192
limit_test = 64
[parallel]
mesh = "data=1,stage=2"
micro_batches = 4
[[model.layers]]
kind = "dense"
out = 32
activation = "relu"
[[model.layers]]
kind = "dense"
out = 48
activation = "relu"
[[model.layers]]
kind = "dense"
out = 32
activation = "relu"
[[model.layers]]
kind = "classifier"
)";

TEST(InspectStages, SaysWhatAStageHoldsAsTheRunDoes) {
  const Workspace w;
  w.write("job.toml", kJob);
  const Ran listed = w.run({"inspect", "stages", "job.toml", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  const Json json = *parse_json(listed.out, "standard output");
  const Ran ran = w.run({"train", "job.toml", "--quiet", "--run-dir", "r"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json summary = w.json("r/summary.json");
  ASSERT_EQ(json["stages"].size(), 2U);
  double parameters = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    const Json& stage = json["stages"][s];
    EXPECT_EQ(stage["kept_bytes"], summary["kept_bytes_per_stage"][s]) << s;
    EXPECT_EQ(stage["weight_versions"], summary["weight_versions"][s]) << s;
    parameters += stage["state_bytes"].get<double>() / 8;  // and a velocity of each
  }
  EXPECT_NEAR(parameters, 784 * 32 + 32 + 32 * 48 + 48 + 48 * 32 + 32 + 32 * 10 + 10, 8);
  EXPECT_EQ(json["limit"], "compute");
  EXPECT_EQ(json["predicted_bubble_fraction"].get<double>() > 0, true);
  // 16 samples of a micro-batch, behind one of the dense layers.
  const double sent = json["stages"][0]["runs"][0]["bytes_forward"];
  EXPECT_TRUE(sent == 16 * 4 * 32 || sent == 16 * 4 * 48) << sent;
  EXPECT_EQ(json["stages"][1]["runs"][0]["bytes_back"], sent);
  EXPECT_EQ(json["stages"][1]["runs"][0]["bytes_forward"], 0);
  EXPECT_EQ(json["stages"][0]["runs"][0]["bytes_back"], 0);
}

TEST(InspectStages, ListsVirtualStagesAndWhatLimits) {
  const Workspace w;
  w.write("job.toml", kJob);
  const Ran ran = w.run({"inspect", "stages", "job.toml", "--set", "parallel.pipeline=interleaved", "--set",
                         "parallel.virtual_stages=2", "--set",
                         "parallel.stage_cuts=[\"dense2\",\"dense3\",\"classifier1\"]"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text : {"pipeline interleaved, 4 micro-batches, 4 segments", "dense1\n", "dense3\n",
                           "classifier1\n", "% of it bubble", "limit"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << " is not in:\n" << ran.out;
  const Ran slow = w.run({"inspect", "stages", "job.toml", "--set", "parallel.link=1mbit"});
  for (const char* text : {"The links limit: ", "     link  dense1"})
    EXPECT_NE(slow.out.find(text), std::string::npos) << slow.out << slow.err;
}

TEST(SimulateStages, NamesAStageWhoseMachineIsSlow) {
  const Workspace w;
  w.write("job.toml", kJob);
  const std::vector<std::string> args{"simulate",         "job.toml", "--steps", "3",
                                      "--batch-per-rank", "512",      "--slow",  "rank=1,factor=8",
                                      "--algorithm",      "ring"};
  const Ran ran = w.run(args);
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text : {"pipeline 1f1b, 2 stages, 4 micro-batches: bubble ", "stage 1 is slow: "})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << " is not in:\n" << ran.out;
  std::vector<std::string> as_json = args;
  as_json.emplace_back("--json");
  const Ran json = w.run(as_json);
  EXPECT_NE(json.out.find("\"slow_stage\": 1"), std::string::npos) << json.out;
}

TEST(InspectStages, SaysWhatIsWrong) {
  const Workspace w;
  w.write("job.toml", kJob);
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> args{"inspect", "stages", "job.toml"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  expect_refused(
      w, {{with({"--mesh", "stage=9"}), 2, "use 4 stages or fewer"},
          {with({"--mesh", "data=2"}), 2, "no stage axis; use --mesh with one, such as data=2,stage=2"},
          {with({"--mesh", "stag=2"}), 2, "did you mean stage?"},
          {with({"--set", "parallel.stage_cuts=[\"dense9\"]"}), 2, "no layer is called 'dense9'"},
          {with({"--set", "train.segments=1"}), 2, "train.segments"}});
}

}  // namespace
}  // namespace trireme::system_test
