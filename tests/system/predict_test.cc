// eval and predict as a user runs them after training.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> tiny_train(std::vector<std::string> more) {
  std::vector<std::string> args{
      "train", "--quiet",           "--set", "train.steps=3", "--set", "data.limit_train=200",
      "--set", "data.limit_test=40"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(PredictCommand, EvalSaysWhatTheSummarySays) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny_train({"--run-dir", "r"})).code, 0);
  const Ran ran = w.run({"eval", "r", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> score = parse_json(ran.out, "standard output");
  ASSERT_TRUE(score.ok()) << ran.out;
  const Json summary = w.json("r/summary.json");
  EXPECT_EQ((*score)["loss"], summary["test_loss"]);
  EXPECT_EQ((*score)["accuracy"], summary["test_accuracy"]);
  EXPECT_EQ((*score)["samples"], 40);
  EXPECT_EQ((*score)["confusion"].size(), 10U);
  const Ran text = w.run({"eval", "r", "--part", "train"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("Train accuracy "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" (200 samples, "), std::string::npos) << text.out;
}

TEST(PredictCommand, AClassifierPrintsALinePerSample) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny_train({"--run-dir", "r"})).code, 0);
  const Ran all = w.run({"predict", "r", "--samples", "0", "--json"});
  ASSERT_EQ(all.code, 0) << all.err;
  const Result<Json> rows = parse_json(all.out, "standard output");
  ASSERT_TRUE(rows.ok()) << all.out;
  ASSERT_EQ(rows->size(), 40U);
  int right = 0;
  for (const Json& row : *rows) right += row["class"] == row["label"] ? 1 : 0;
  EXPECT_DOUBLE_EQ(right / 40.0, w.json("r/summary.json").value("test_accuracy", -1.0));
  const Ran some = w.run({"predict", "r"});
  EXPECT_NE(some.err.find("the first 32 of 40"), std::string::npos) << some.err;
  const Ran table = w.run({"predict", "r", "--samples", "2", "--csv", "out.csv"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(w.read("out.csv").find("sample,class,probability"), 0U) << w.read("out.csv");
}

TEST(PredictCommand, AnAutoencoderDrawsSheetsThatCanBeReadAgain) {
  const Workspace w;
  const std::string recipe = std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/recipes/autoencoder.toml";
  ASSERT_EQ(w.run(tiny_train({"--run-dir", "r", recipe})).code, 0);
  const Ran ran = w.run({"predict", "r", "--png", "sheet.png", "--filters", "filters.png"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(w.read("sheet.png").substr(1, 3), "PNG");
  EXPECT_EQ(w.read("filters.png").substr(1, 3), "PNG");
  const Ran again = w.run({"predict", "r", "--input", "sheet.png", "--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("were scaled and cropped"), std::string::npos) << again.err;
}

TEST(PredictCommand, ALanguageModelGoesOnWithAText) {
  const Workspace w;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "to be or not to be\n";
  w.write("text.txt", text);
  ASSERT_EQ(w.run({"train", "--quiet", "--run-dir", "r", "--set", "data.kind=text", "--set",
                   "data.path=text.txt", "--set", "data.context=16", "--set", "model.name=char-lstm", "--set",
                   "model.options={layers=1, width=16}", "--set", "train.steps=5", "--set", "train.batch=16"})
                .code,
            0);
  const Ran ran = w.run({"predict", "r", "--prompt", "to be", "--tokens", "40", "--seed", "3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("to be"), 0U) << ran.out;
  EXPECT_EQ(ran.out.size(), 5U + 40U + 1U) << ran.out;
  EXPECT_EQ(w.run({"predict", "r", "--prompt", "to be", "--tokens", "40", "--seed", "3"}).out, ran.out);
  const Ran score = w.run({"eval", "r", "--json"});
  const Result<Json> json = parse_json(score.out, "standard output");
  ASSERT_TRUE(json.ok()) << score.out << score.err;
  EXPECT_NEAR((*json).value("bits_per_token", 0.0), (*json).value("loss", 1.0) / 0.6931471805599453, 1e-9);
  const Ran unknown = w.run({"predict", "r", "--prompt", "to BE"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("'B' at offset 3, 'E' at offset 4"), std::string::npos) << unknown.err;
  EXPECT_EQ(unknown.out, "");
  const Ran moved = w.run({"eval", "r", "--data.path", "moved.txt"});
  EXPECT_EQ(moved.code, 1);
  EXPECT_NE(moved.err.find("moved.txt"), std::string::npos) << moved.err;
}

// Words of a command line; double quotes keep spaces.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

TEST(PredictCommand, EveryCommandOfTheGuideWorks) {
  const Workspace w;
  const std::string source = std::getenv("TRIREME_SOURCE_DIR");
  std::string text, table = "length,width,kind\n";
  for (int i = 0; i < 400; ++i) text += "to be or not to be\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},{},{}\n", i, i % 5, i > 20 ? "rose" : "tulip");
  std::filesystem::create_directories(w / "elsewhere");
  w.write("text.txt", text);
  for (const char* name : {"flowers.csv", "new_flowers.csv", "elsewhere/flowers.csv"}) w.write(name, table);
  ASSERT_EQ(w.run(tiny_train({})).code, 0);
  ASSERT_EQ(w.run(tiny_train({"--run-dir", "runs/autoencoder-1", source + "/recipes/autoencoder.toml"})).code,
            0);
  ASSERT_EQ(w.run({"train", "--quiet", "--set", "name=flowers", "--set", "model.name=mlp", "--set",
                   "data.kind=csv", "--set", "data.path=flowers.csv", "--set", "train.steps=2"})
                .code,
            0);
  ASSERT_EQ(
      w.run({"train", "--quiet", source + "/recipes/char-lstm.toml", "--set", "data.path=text.txt", "--set",
             "data.context=16", "--set", "model.options={layers=1, width=16}", "--set", "train.steps=2"})
          .code,
      0);
  std::filesystem::create_directories(w / "my_digits");
  ASSERT_EQ(w.run({"predict", "runs/autoencoder-1", "--samples", "1", "--png", "my_digits/seven.png"}).code,
            0);
  std::ifstream guide(source + "/docs/how_to_predict.md");
  const std::string start = "    ./run ";
  int commands = 0;
  for (std::string line; std::getline(guide, line);) {
    if (!line.starts_with(start)) continue;
    ++commands;
    const Ran ran = w.run(words_of(line.substr(start.size())));
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
  }
  EXPECT_GE(commands, 15);
}

TEST(PredictCommand, MistakesGetAClearMessageAndAnExitCode) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny_train({"--run-dir", "r"})).code, 0);
  std::filesystem::create_directories(w / "bare/checkpoints");
  w.write("bare/job.toml", w.read("r/job.toml"));
  const std::vector<Refusal> mistakes{
      {{"eval"}, 2, "--help"},
      {{"eval", "nowhere"}, 2, "no job.toml"},
      {{"eval", "bare"}, 1, "no whole checkpoint"},
      {{"eval", "r", "--part", "exam"}, 2, "test, validation or train"},
      {{"eval", "r", "--part", "validation"}, 2, "no validation samples"},
      {{"eval", "r", "--set", "train.epochs=3"}, 2, "only keys of [data]"},
      {{"eval", "r", "--set", "data.limits=3"}, 2, "data.limits"},
      {{"eval", "r", "--checkpoint", "nowhere"}, 2, "nowhere"},
      {{"predict", "r", "--prompt", "hello"}, 2, "--prompt is not for this model"},
      {{"predict", "r", "--png", "x.png"}, 2, "--png is not for this model"},
      {{"predict", "r", "--input", "nowhere"}, 2, "--input nowhere"},
      {{"predict", "r", "--samples", "-3"}, 2, "--samples"},
      {{"predict", "r", "--csv", "no/such/folder/x.csv"}, 1, "no/such/folder"},
  };
  expect_refused(w, mistakes);
}

}  // namespace
}  // namespace trireme::system_test
