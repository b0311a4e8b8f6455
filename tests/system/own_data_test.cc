// The first hour with one's own data, through the real binary: defaults that fit, notes on what looks wrong,
// and refusals that say what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFailed = 1, kUsage = 2;

// Three kinds of flowers, 50 of each, four measures that tell them apart but for a few.
std::string flowers(const std::string& header = "sepal_l,sepal_w,petal_l,petal_w,kind\n") {
  std::string text = header;
  std::uint32_t state = 12345;
  const auto noise = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<double>(state >> 8U) / (1U << 24U) - 0.5;
  };
  const char* names[] = {"setosa", "versicolor", "virginica"};
  for (int i = 0; i < 150; ++i) {
    const int kind = i % 3;
    text += fmt::format("{:.2f},{:.2f},{:.2f},{:.2f},{}\n", 5 + 0.8 * kind + noise(),
                        3.2 - 0.2 * kind + 0.4 * noise(), 1.5 + 2 * kind + noise(),
                        0.3 + 0.8 * kind + 0.5 * noise(), names[kind]);
  }
  return text;
}

std::vector<std::string> train(const std::vector<std::string>& sets, std::vector<std::string> more = {}) {
  std::vector<std::string> args{"train", "--run-dir", "r"};
  args.insert(args.end(), more.begin(), more.end());
  args.emplace_back("--set");
  args.insert(args.end(), sets.begin(), sets.end());
  return args;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(OwnData, ATableIsLearnedWithoutAnyOtherKey) {
  const Workspace w;
  w.write("flowers.csv", flowers());
  const auto command = train({"data.kind=csv", "data.path=flowers.csv"});
  const Ran ran = w.run(command);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(count(ran.err, "note: "), 1U) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("note: picked by the data, as the job does not say: model.name = \"mlp\", "
                                 "train.epochs = 67, train.batch = 16"));
  EXPECT_GE(w.json("r/summary.json").value("test_accuracy", 0.0), 0.85);
  const std::string job = w.read("r/job.toml");
  for (const char* line : {"name = \"mlp\"", "epochs = 67", "batch = 16"}) EXPECT_THAT(job, HasSubstr(line));
  const Ran again = w.run(command);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("different job")));
}

TEST(OwnData, ARunOfAnOlderVersionIsStillThisJobs) {
  const Workspace w;
  w.write("flowers.csv", flowers());
  ASSERT_EQ(w.run(train({"data.kind=csv", "data.path=flowers.csv", "model.name=mlp", "train.epochs=4",
                         "train.batch=128", "train.eval_steps=0", "train.checkpoint_steps=0"}))
                .code,
            0);
  const Ran again = w.run(train({"data.kind=csv", "data.path=flowers.csv", "model.name=mlp"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("different job"))) << "an older version trained it with its defaults";
  EXPECT_EQ(w.json("r/summary.json").value("steps", 0), 8);
}

TEST(OwnData, NotesAreToldOnceAndNeverOnStandardOutput) {
  const Workspace w;
  std::string table = "n,kind\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},one\n", i);
  w.write("t.csv", table);
  const std::vector<std::string> sets = {"data.kind=csv", "data.path=t.csv", "train.steps=2", "train.batch=8",
                                         "model.name=mlp"};
  const Ran two = w.run(train(sets, {"--workers", "2", "--json"}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(count(two.err, "column 'n' numbers the rows"), 1U) << two.err;
  EXPECT_EQ(count(two.err, "are of one class, 'one'"), 1U) << two.err;
  EXPECT_TRUE(parse_json(two.out, "out").ok()) << two.out;
  const Workspace q;
  q.write("t.csv", table);
  const Ran quiet = q.run(train(sets, {"--quiet"}));
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.err, "");
}

TEST(OwnData, AHeaderOfNumbersIsNoClass) {
  const Workspace w;
  w.write("years.csv", flowers("2019,2020,2021,2022,target\n"));
  const Ran ran = w.run(train({"data.kind=csv", "data.path=years.csv", "train.steps=2"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("note: the first line (2019, 2020, 2021, ..., target) is read as a header"));
  const Ran eval = w.run({"eval", "r", "--json"});
  const Result<Json> score = parse_json(eval.out, "eval");
  ASSERT_TRUE(score.ok()) << eval.err;
  EXPECT_EQ(score->at("classes").size(), 3U);
}

TEST(OwnData, WithoutTestSamplesThereIsNoTestResult) {
  const Workspace w;
  w.write("flowers.csv", flowers());
  const Ran ran = w.run(train({"data.kind=csv", "data.path=flowers.csv", "data.test=0", "train.steps=3"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("No test samples"));
  EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("0.00 %")));
  const Json summary = w.json("r/summary.json");
  EXPECT_TRUE(summary.value("finished", false));
  EXPECT_FALSE(summary.contains("test_loss"));
  EXPECT_FALSE(summary.contains("test_accuracy"));
  EXPECT_THAT(w.read("r/metrics.jsonl"), Not(HasSubstr("test_loss")));
  const Ran eval = w.run({"eval", "r"});
  EXPECT_NE(eval.code, 0);
  EXPECT_THAT(eval.err, HasSubstr("test"));
}

TEST(OwnData, ABatchLargerThanTheDataIsTheData) {
  const Workspace w;
  const Ran ran = w.run(train(
      {"train.steps=2", "data.limit_train=60", "data.limit_test=20", "train.batch=20000", "model.name=mlp"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err,
              HasSubstr("note: train.batch = 20000 is more than the 60 training samples; the batch is 60"));
  EXPECT_EQ(w.json("r/summary.json").value("samples", 0), 120);
  EXPECT_THAT(w.read("r/job.toml"), HasSubstr("batch = 60"));
}

TEST(OwnData, ATextGetsALanguageModel) {
  const Workspace w;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  w.write("text.txt", text);
  const Ran ran = w.run(train({"data.kind=text", "data.path=text.txt", "data.context=16", "train.steps=2"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("model.name = \"char-gpt\""));
  EXPECT_THAT(ran.err, HasSubstr("train.optimizer.kind = \"adamw\""));
}

TEST(OwnData, RefusalsSayWhatToDo) {
  const Workspace w;
  std::string numbers = "a,b,target\n";
  for (int i = 0; i < 442; ++i)
    numbers += fmt::format("{},{},{}\n", i % 7, (i * 5) % 11, 25 + (i * 37) % 320);
  w.write("diabetes.csv", numbers);
  w.write("tabs.csv", "a\tb\tkind\n1\t2\tx\n2\t1\ty\n3\t5\tx\n");
  w.write("utf16.csv", std::string("\xFF\xFE"
                                   "1\0,\0x\0\n\0",
                                   10));
  w.write("trailing.csv", "a,b,kind,\n1,2,x,\n2,1,y,\n");
  w.write("decimal.csv", "a;b;kind\n5,8;1,0;x\n");
  w.write("one.npy", "no array");
  std::filesystem::create_directories(w / "tables");
  w.write("tables/iris.csv", "1,2,x\n");
  std::filesystem::create_directories(w / "gifs/cat");
  w.write("gifs/cat/1.gif", "GIF89a");
  const auto csv = [](const std::string& path, std::vector<std::string> more = {}) {
    std::vector<std::string> sets{"data.kind=csv", "data.path=" + path, "train.steps=1"};
    sets.insert(sets.end(), more.begin(), more.end());
    return train(sets);
  };
  expect_refused(
      w,
      {
          {csv("diabetes.csv"), kUsage, "looks like a target for regression"},
          {csv("utf16.csv"), kFailed, "the file is UTF-16"},
          {csv("trailing.csv"), kFailed, "the line ends with a separator"},
          {csv("decimal.csv", {"data.separator=;"}), kFailed, "replace decimal commas"},
          {csv("tables"), kUsage, "set data.path to a .csv file"},
          {csv("tabs.csv", {"data.separator=tabs"}), kUsage, "one character, or tab"},
          {train({"data.kind=npy", "data.path=one.npy"}), kUsage, "folder with x_train.npy and y_train.npy"},
          {train({"data.kind=images", "data.path=gifs", "data.shape=1x16x16"}), kFailed,
           "it has 1 .gif; convert"},
          {csv("tabs.csv", {"data.separator=\\t", "model.name=lenet"}), kUsage,
           "for tables and vectors set model.name=mlp"},
          {{"inspect", "model", "lenet", "--shape", "3x2x2"}, kUsage, "are too small for 'lenet'"},
      });
  EXPECT_EQ(w.run(csv("tabs.csv", {"data.separator=\\t"})).code, 0);
}

}  // namespace
}  // namespace trireme::system_test
