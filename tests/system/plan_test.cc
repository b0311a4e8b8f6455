// `trireme plan` as a user calls it: its table, its JSON, and mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

TEST(PlanCommand, ExplainsTheChoicePerTensor) {
  const Workspace w;
  const Ran ran = w.run({"plan", "mnist-mlp", "--workers", "4", "--gbit", "0.1", "--latency-us", "50",
                         "--batch", "128", "--set", "parallel.codec=auto"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* words : {"tensor", "gradient", "travels as", "fc1/weight", "factors", "fp16", "saves ",
                            "too short to encode", "all tensors", "predicted step ", "chosen: "})
    EXPECT_THAT(ran.out, HasSubstr(words));
}

TEST(PlanCommand, AsJsonHasThePricesOfEveryCandidate) {
  const Workspace w;
  const Ran ran = w.run({"plan", "mnist-mlp", "--workers", "4", "--link", "100gbit,5us", "--json", "--set",
                         "parallel.codec=auto", "parallel.codec_tolerance=feedback"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> json = parse_json(ran.out, "standard output");
  ASSERT_TRUE(json.ok()) << ran.out;
  EXPECT_EQ((*json)["workers"], 4);
  EXPECT_EQ((*json)["asked"], "auto");
  EXPECT_GE((*json)["choices"].size(), 9U);
  for (const Json& t : (*json)["tensors"]) {
    EXPECT_TRUE(t.contains("why") && t.contains("bytes_sent") && t.contains("dense_bytes")) << t.dump();
    EXPECT_FALSE(t["candidates"].empty());
  }
  const Ran servers = w.run({"plan", "mnist-mlp", "--workers", "4", "--servers", "2", "--gbit", "1", "--set",
                             "parallel.agreement=ssp", "parallel.codec=topk"});
  ASSERT_EQ(servers.code, 0) << servers.err;
  EXPECT_THAT(servers.out, HasSubstr("topk"));
}

// 40 rows of two numbers in two classes.
std::string table() {
  std::string text = "a,b,kind\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},{},{}\n", i % 7, (i * 5) % 11, i % 2 == 0 ? "x" : "y");
  return text;
}

Json json_of(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Result<Json> json = parse_json(ran.out, "standard output");
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? *json : Json();
}

TEST(PlanCommand, PicksTheModelAndTheBatchByTheDataAsTrainDoes) {
  const Workspace w;
  w.write("t.csv", table());
  w.write("job.toml", "[data]\nkind = \"csv\"\npath = \"t.csv\"\n[parallel]\nworkers = 2\n");
  const Ran trained = w.run({"train", "job.toml", "--run-dir", "r", "--set", "train.epochs=2"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const char* picked = "note: picked by the data, as the job does not say: model.name = \"mlp\"";
  EXPECT_THAT(trained.err, HasSubstr(picked));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"plan"}, std::vector<std::string>{"inspect", "model"}}) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"job.toml", "--json"});
    const Ran ran = w.run(args);
    const Json json = json_of(ran);
    EXPECT_THAT(ran.err, HasSubstr(picked));
    EXPECT_EQ(json.value("model", ""), "mlp");
    EXPECT_EQ(json.value("classes", 0), 2);
    EXPECT_THAT(w.read("r/job.toml"), HasSubstr(fmt::format("batch = {}\n", json.value("batch", 0))));
  }
  const Ran text = w.run({"plan", "job.toml"});
  EXPECT_THAT(text.out, ::testing::StartsWith("mlp, batch 8; samples [2] (of the data), 2 classes\n"));
  EXPECT_THAT(w.run({"inspect", "graph", "job.toml"}).err, HasSubstr(picked));
  EXPECT_EQ(json_of(w.run({"plan", "job.toml", "--json", "--batch", "1000"})).value("batch", 0), 36)
      << "as many as there are training samples";
}

TEST(PlanCommand, WithoutTheDataItSaysWhatIsAssumedAndWhy) {
  const Workspace w;
  w.write("t.csv", table());
  w.write("job.toml", "[data]\nkind = \"csv\"\npath = \"gone.csv\"\n");
  const Ran gone = w.run({"plan", "job.toml", "--workers", "2"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_THAT(gone.err, HasSubstr("note: the data is not read (job.toml:3:8: "));
  EXPECT_THAT(gone.err, HasSubstr("); assumed: model.name = \"mlp\", train.batch = 128, "));
  EXPECT_THAT(gone.err, HasSubstr("samples [1, 28, 28] (as published for mlp), 10 classes\n"));
  const Ran given =
      w.run({"plan", "--set", "data.kind=csv", "data.path=t.csv", "--shape", "7", "--classes", "3"});
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_THAT(given.err, HasSubstr("note: the data is not read (--shape is given instead); assumed: "
                                   "model.name = \"mlp\", train.batch = 128, "));
  const Ran text = w.run({"plan", "--set", "data.kind=text"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("(data.path is not set); assumed: model.name = \"char-gpt\""));
  const Ran zoo = w.run({"inspect", "model", "lenet"});
  EXPECT_EQ(zoo.err, "") << "a model of the zoo has no data";
}

TEST(PlanCommand, MistakesGetAClearMessageAndExitCodeTwo) {
  const Workspace w;
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"plan", "no-such-model"}, "no model is called 'no-such-model'"},
      {{"plan", "mnist-mlp", "--workers", "0"}, "--workers"},
      {{"plan", "mnist-mlp", "--link", "fast"}, "not a bandwidth"},
      {{"plan", "mnist-mlp", "--link", "1gbit", "--gbit", "1"}, "--link and --gbit"},
      {{"plan", "mnist-mlp", "--latency-us", "5"}, "--latency-us needs --gbit"},
      {{"plan", "mnist-mlp", "--workers", "2", "--servers", "1"}, "parallel.servers"},
      {{"plan", "mnist-mlp", "--set", "parallel.codec=zip"}, "parallel.codec"},
  };
  for (const auto& [command, words] : mistakes) {
    const Ran ran = w.run(command);
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.out << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  }
}

}  // namespace
}  // namespace trireme::system_test
