// eval and predict with several processes, as a user runs them: the results, and what is said when they
// cannot have any.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

class PredictOnMesh : public ::testing::Test {
 protected:
  void train(const std::string& run, std::vector<std::string> more = {}) {
    std::vector<std::string> args{"train",     "--quiet",
                                  "--run-dir", run,
                                  "--set",     "train.steps=3",
                                  "--set",     "train.batch=50",
                                  "--set",     "data.limit_train=200",
                                  "--set",     "data.limit_test=130"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = w.run(args);
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  Json json_of(const std::vector<std::string>& args) {
    const Ran ran = w.run(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const Result<Json> json = parse_json(ran.out, "standard output");
    EXPECT_TRUE(json.ok()) << ran.out << ran.err;
    return json.ok() ? *json : Json();
  }
  const Workspace w;
};

TEST_F(PredictOnMesh, WorkersShareTheSamplesAndGiveTheSameBits) {
  train("r");
  Json alone = json_of({"eval", "r", "--json"}), shared = json_of({"eval", "r", "--json", "--workers", "2"});
  for (const char* time : {"seconds", "samples_per_second"}) alone.erase(time), shared.erase(time);
  EXPECT_EQ(shared, alone);
  EXPECT_EQ(json_of({"predict", "r", "--json", "--samples", "0", "--workers", "2"}),
            json_of({"predict", "r", "--json", "--samples", "0"}));
  const Ran text = w.run({"eval", "r", "--mesh", "data=2"});
  EXPECT_EQ(text.out.find("Test accuracy "), 0U) << text.out;
  EXPECT_EQ(text.err, "");
  const Ran csv = w.run({"predict", "r", "--workers", "2", "--csv", "out.csv"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_EQ(w.read("out.csv").find("sample,class,probability"), 0U) << w.read("out.csv");
}

TEST_F(PredictOnMesh, AModelIsCutHoweverItWasTrained) {
  train("one");
  train("two", {"--mesh", "model=2"});
  for (const char* run : {"one", "two"}) {
    const Json summary = w.json(std::string(run) + "/summary.json");
    for (const char* mesh : {"model=2", "data=2,model=2"}) {
      const Json score = json_of({"eval", run, "--json", "--mesh", mesh});
      EXPECT_NEAR(score.value("loss", 0.0), summary.value("test_loss", -1.0), 1e-5) << run << " on " << mesh;
      EXPECT_EQ(score["accuracy"], summary["test_accuracy"]) << run << " on " << mesh;
    }
  }
  EXPECT_EQ(json_of({"eval", "two", "--json", "--mesh", "model=2"})["loss"],
            w.json("two/summary.json")["test_loss"])
      << "the same cuts give the same bits";
  const Json alone = json_of({"predict", "one", "--json"}),
             cut = json_of({"predict", "one", "--json", "--mesh", "model=2"});
  ASSERT_EQ(cut.size(), alone.size());
  for (std::size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(cut[i]["class"], alone[i]["class"]);
}

TEST_F(PredictOnMesh, StagesGiveTheSameBitsHoweverTheModelWasTrained) {
  train("one");
  train("two", {"--mesh", "data=1,stage=2"});
  for (const auto& [run, mesh] : {std::pair("one", "stage=2"), std::pair("two", "data=2,stage=2")}) {
    Json alone = json_of({"eval", run, "--json"});
    EXPECT_EQ(alone["loss"], w.json(std::string(run) + "/summary.json")["test_loss"]) << run;
    Json staged = json_of({"eval", run, "--json", "--mesh", mesh});
    for (const char* time : {"seconds", "samples_per_second"}) alone.erase(time), staged.erase(time);
    EXPECT_EQ(staged, alone) << run << " on " << mesh;
  }
  EXPECT_EQ(json_of({"predict", "two", "--json", "--mesh", "stage=3"}),
            json_of({"predict", "two", "--json"}));
}

TEST_F(PredictOnMesh, TokensGoRoundTheStages) {
  w.write("text.txt", std::string(400, 'a') + std::string(400, 'b') + "abcabcabc\n");
  train("r", {"--set", "model.name=char-gpt", "--set", "model.options={width=16, layers=2, heads=2}", "--set",
              "data.kind=text", "--set", "data.path=text.txt", "--set", "data.context=16", "--set",
              "train.batch=8", "--set", "data.limit_train=16", "--set", "data.limit_test=8"});
  const Ran alone = w.run({"predict", "r", "--quiet", "--prompt", "ab", "--tokens", "12"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  for (const char* mesh : {"stage=2", "stage=3"})
    EXPECT_EQ(w.run({"predict", "r", "--quiet", "--prompt", "ab", "--tokens", "12", "--mesh", mesh}).out,
              alone.out)
        << mesh;
}

TEST_F(PredictOnMesh, ARankThatDiesIsOneErrorThatNamesIt) {
  train("r");
  for (const char* command : {"eval", "predict"}) {
    const Ran ran = w.run({command, "r", "--mesh", "data=2,model=2", "--fault", "3:kill@collective:6"});
    EXPECT_EQ(ran.code, 1) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("rank 3 (data 1, model 1): died by signal 9"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find("error: "), ran.err.rfind("error: ")) << "told once: " << ran.err;
    const Ran staged = w.run({command, "r", "--mesh", "data=2,stage=2", "--fault", "3:kill@collective:3"});
    EXPECT_EQ(staged.code, 1) << staged.err;
    EXPECT_NE(staged.err.find("rank 3 (data 1, stage 1): died by signal 9"), std::string::npos) << staged.err;
  }
}

TEST_F(PredictOnMesh, MistakesAreRefusedBeforeRanksStart) {
  train("r");
  std::filesystem::create_directories(w / "bare/checkpoints");
  w.write("bare/job.toml", w.read("r/job.toml"));
  expect_refused(w,
                 {{{"eval", "r", "--mesh", "model=2", "--workers", "3"}, 2, "set --workers 2"},
                  {{"eval", "r", "--mesh", "rows=2"}, 2, "expected data, stage or model"},
                  {{"eval", "r", "--mesh", "model"}, 2, "mesh"},
                  {{"eval", "r", "--mesh", "model=4000"}, 2, "error: style 'tensor' does not fit the model"},
                  {{"eval", "r", "--mesh", "stage=9"}, 2, "use 4 stages or fewer"},
                  {{"predict", "r", "--mesh", "model=2,stage=2"}, 2, "expected data, stage, model"},
                  {{"predict", "r", "--mesh", "model=4000"}, 2, "error: style 'tensor' does not fit"},
                  {{"eval", "r", "--workers", "0"}, 2, "--workers"},
                  {{"eval", "nowhere", "--workers", "2"}, 2, "no job.toml"},
                  {{"eval", "bare", "--workers", "2"}, 1, "no whole checkpoint"},
                  {{"eval", "r", "--workers", "2", "--part", "exam"}, 2, "test, validation or train"},
                  {{"eval", "r", "--workers", "2", "--part", "validation"}, 2, "no validation samples"},
                  {{"predict", "r", "--workers", "2", "--input", "nowhere"}, 2, "--input nowhere"},
                  {{"predict", "r", "--workers", "2", "--prompt", "hello"}, 2, "--prompt is not for this"},
                  {{"predict", "r", "--workers", "2", "--filters", "f.png"}, 2, "leave --mesh"}});
}

}  // namespace
}  // namespace trireme::system_test
