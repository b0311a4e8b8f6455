// What workers hold in memory where the model is most of it: counted, as predicted before the run, and under
// a cap below the whole model.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/sanitizer.h"
#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<double> numbers(const Json& of, const char* name) {
  if (!of.is_object() || !of.contains(name)) return {};
  return of[name].get<std::vector<double>>();
}

// Trains for a few steps, with evaluations and checkpoints.
Json trained(const Workspace& w, const std::string& folder, const Words& sets) {
  const Ran ran = w.run(Words{"train", "--quiet", "--run-dir", folder, "--set", "train.steps=4"} + sets);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return w.json(folder + "/summary.json");
}

struct Sized {
  const char* name;  // letters only
  Words sets;
};

std::vector<Sized> models() {
  const Words made{"data.kind=synthetic", "data.num_train=200", "data.num_test=40"};
  return {
      {"mlp", made + Words{"model.name=mnist-mlp", "train.batch=16"}},
      {"conv", made + Words{"model.name=mnist-cnn", "train.batch=8"}},
      {"gpt",
       {"data.kind=text", "data.path=text.txt", "data.context=16", "model.name=char-gpt",
        "model.options={layers=3, width=256}", "train.batch=2"}},
      {"speech", made + Words{"model.name=speech-42m", "model.options={scale=0.3}", "data.shape=440",
                              "data.classes=1024", "train.batch=16"}},
  };
}

class MemoryOfWorkers : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MemoryOfWorkers, IsPredictedWithinFivePercent) {
  const Sized model = models()[GetParam()];
  const Workspace w;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += static_cast<char>('!' + i * 7919 % 65);
  w.write("text.txt", text);
  int runs = 0;
  for (const char* optimizer : {"sgd", "adam"}) {
    for (const Words& workers : {Words{}, Words{"parallel.workers=2"},
                                 Words{"parallel.mesh=data=1,model=2", "parallel.style=tensor"},
                                 Words{"parallel.mesh=data=2,model=2", "parallel.style=tensor"}}) {
      const Words kind{std::string("train.optimizer.kind=") + optimizer};
      const Json s = trained(w, "run-" + std::to_string(runs++), model.sets + kind + workers);
      const std::vector<double> peak = numbers(s, "peak_bytes_per_rank"),
                                predicted = numbers(s, "predicted_bytes_per_rank");
      const std::string where = fmt::format("{} {} {}", model.name, optimizer, fmt::join(workers, " "));
      ASSERT_EQ(peak.size(), s.value("workers", std::size_t{0})) << where;
      ASSERT_EQ(peak.size(), predicted.size()) << where;
      for (std::size_t r = 0; r < peak.size(); ++r)
        EXPECT_NEAR(predicted[r] / peak[r], 1, 0.05) << where << ", rank " << r;
    }
  }
}

// Every level holds less than the one before at the most, to the same bits. Gradients of two buckets that
// follow each other are there at the same time, which for the first two models are nearly all.
TEST_P(MemoryOfWorkers, FallsByLevelOfZeroAsPredicted) {
  const Sized model = models()[GetParam()];
  const Workspace w;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += static_cast<char>('!' + i * 7919 % 65);
  w.write("text.txt", text);
  int runs = 0;
  // Smaller buckets show more of what is divided.
  const Words adam{"train.optimizer.kind=adam", "parallel.bucket_bytes=262144", "parallel.weights=own",
                   "train.logical_shards=2"};
  for (const Words& workers :
       {Words{"parallel.workers=2"}, Words{"parallel.mesh=data=2,model=2", "parallel.style=tensor"}}) {
    double before = 1e18;
    std::string bits;
    for (const char* level : {"0", "1", "2", "3"}) {
      const Words zero{std::string("parallel.zero=") + level};
      const Json s = trained(w, "level-" + std::to_string(runs++),
                             model.sets + adam + workers + (level[0] == '0' ? Words{} : zero));
      const std::vector<double> peak = numbers(s, "peak_bytes_per_rank"),
                                predicted = numbers(s, "predicted_bytes_per_rank");
      const std::string where = fmt::format("{} level {} {}", model.name, level, fmt::join(workers, " "));
      ASSERT_EQ(peak.size(), s.value("workers", std::size_t{0})) << where;
      ASSERT_EQ(peak.size(), predicted.size()) << where;
      for (std::size_t r = 0; r < peak.size(); ++r)
        EXPECT_NEAR(predicted[r] / peak[r], 1, 0.05) << where << ", rank " << r;
      const double most = *std::max_element(peak.begin(), peak.end());
      const bool same = level[0] == '2' && GetParam() < 2;
      EXPECT_LT(most, before * (same ? 1.001 : 1)) << where;
      before = most;
      const std::string hash = s.value("parameters_sha256", "");
      EXPECT_EQ(hash.size(), 64U) << where;
      if (bits.empty()) bits = hash;
      EXPECT_EQ(hash, bits) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryOfWorkers, ::testing::Range(std::size_t{0}, models().size()),
                         [](const auto& info) { return std::string(models()[info.param].name); });

// Each segment's weights and gradients are together only while it computes. Where a memory limit is given the
// cuts do not depend on how fast the cores happen to be.
TEST(MemoryOfPipelines, FallsByLevelOfZeroAsPredicted) {
  const Workspace w;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += static_cast<char>('!' + i * 7919 % 65);
  w.write("text.txt", text);
  const Words job{"data.kind=text",
                  "data.path=text.txt",
                  "data.context=16",
                  "model.name=char-gpt",
                  "train.batch=8",
                  "model.options={layers=6, width=192}",
                  "train.segments=6",
                  "train.optimizer.kind=adam",
                  "parallel.micro_batches=4",
                  "train.optimizer.clip_norm=0",
                  "train.memory_limit=64GiB",
                  "parallel.bucket_bytes=262144"};
  for (const char* timetable : {"1f1b", "zb-h1"}) {
    double before = 1e18;
    std::string bits;
    for (const char* level : {"0", "1", "2", "3"}) {
      const Words how{"parallel.mesh=data=2,stage=2", std::string("parallel.pipeline=") + timetable,
                      std::string("parallel.zero=") + level};
      const std::string where = fmt::format("{}, level {}", timetable, level);
      const Json s = trained(w, fmt::format("{}-{}", timetable, level), job + how);
      const std::vector<double> peak = numbers(s, "peak_bytes_per_rank"),
                                predicted = numbers(s, "predicted_bytes_per_rank");
      ASSERT_EQ(peak.size(), 4U) << where;
      ASSERT_EQ(predicted.size(), 4U) << where;
      for (std::size_t r = 0; r < 4; ++r)
        EXPECT_NEAR(predicted[r] / peak[r], 1, 0.05) << where << ", rank " << r;
      const double most = *std::max_element(peak.begin(), peak.end());
      EXPECT_LT(most, 0.95 * before) << where;
      before = most;
      const std::string hash = s.value("parameters_sha256", "");
      EXPECT_EQ(hash.size(), 64U) << where;
      if (bits.empty()) bits = hash;
      EXPECT_EQ(hash, bits) << where;
    }
  }
}

TEST(MemoryOfMeshes, IsShownBeforeTheRunAsItIsPredictedInIt) {
  const Workspace w;
  const Words sets{
      "data.kind=synthetic",  "data.shape=1x28x28", "data.num_train=200",          "data.num_test=40",
      "model.name=mnist-mlp", "train.batch=16",     "parallel.mesh=data=2,model=2"};
  const Json s = trained(w, "run", sets);
  const Ran shown = w.run(Words{"inspect", "model", "--json", "--set"} + sets);
  const Result<Json> json = parse_json(shown.out, "standard output");
  ASSERT_TRUE(json.ok()) << shown.err;
  const std::vector<double> before = numbers((*json)["memory"], "predicted_bytes_per_rank"),
                            after = numbers(s, "predicted_bytes_per_rank");
  ASSERT_EQ(before.size(), 4U);
  ASSERT_EQ(after.size(), 4U);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_NEAR(before[r] / after[r], 1, 0.05) << "rank " << r;
  const Ran text = w.run({"inspect", "model", "mnist-mlp", "--mesh", "data=2,model=2"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("rank 3 (data 1, model 1)"), std::string::npos) << text.out;
  const Ran wrong = w.run({"inspect", "model", "mnist-mlp", "--mesh", "modell=2"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("got axis 'modell', expected data, stage or model"), std::string::npos)
      << wrong.err;
}

// Weights and gradients of 42 million parameters are 334 MB. The cap is on all private memory of a process.
TEST(MemoryOfMeshes, IsNowhereThatOfTheWholeModelWhileItTrainsSavesLoadsAndIsJudged) {
  if (kUnderSanitizer) GTEST_SKIP() << "sanitizers take memory of their own";
  const Workspace w;
  const auto capped = [&](const std::string& arguments) {
    return w.run_program({"bash", "-c", "ulimit -d 330000; exec " + binary_path() + " " + arguments});
  };
  const std::string job =
      " --set data.kind=synthetic data.shape=440 data.classes=8192 data.num_train=64 data.num_test=16"
      " model.name=speech-42m train.batch=8 train.optimizer.kind=sgd train.checkpoint_steps=1";
  const Ran alone = capped("train --quiet --run-dir alone" + job + " train.steps=2");
  EXPECT_NE(alone.code, 0) << "the cap is below what the whole model needs";
  EXPECT_NE(alone.err.find("out of memory"), std::string::npos) << alone.err;
  for (const char* steps :
       {" train.steps=2", " train.steps=3"}) {  // from the beginning, and from a checkpoint
    const Ran cut =
        capped("train --quiet --run-dir cut --mesh model=4" + job + " parallel.style=tensor" + steps);
    ASSERT_EQ(cut.code, 0) << cut.err;
  }
  const std::vector<double> peak = numbers(w.json("cut/summary.json"), "peak_bytes_per_rank");
  ASSERT_EQ(peak.size(), 4U);
  EXPECT_LT(*std::max_element(peak.begin(), peak.end()), 0.35 * 12 * 41'777'152)
      << "weights, gradients and what is written of them, of 42 million parameters";
  const Ran judged = capped("eval cut --mesh model=4");
  EXPECT_EQ(judged.code, 0) << judged.err;
}

}  // namespace
}  // namespace trireme::system_test
