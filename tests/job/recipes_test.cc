// Recipes: all can be read, make sense, fit their data and say what they need; digits.toml is the default
// job.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "trireme/data/options.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

std::filesystem::path recipes() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::filesystem::path(root != nullptr ? root : ".") / "recipes";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Recipe {
  std::string name;  // without ".toml"
  std::string text;
  Job job;
};

std::vector<Recipe> all_recipes() {
  std::vector<Recipe> all;
  for (const auto& entry : std::filesystem::directory_iterator(recipes())) {
    Recipe r{entry.path().stem().string(), text_of(entry.path()), {}};
    if (r.name.starts_with("cluster_")) continue;  // machines, not jobs
    Result<Job> job = parse_job(r.text, entry.path().filename().string());
    EXPECT_TRUE(job.ok()) << job.status().to_string();
    if (job.ok()) r.job = std::move(*job);
    all.push_back(std::move(r));
  }
  return all;
}

// What a recipe's data looks like, without the data.
model::ModelInput input_of(const Job& job) {
  const model::ModelTask task = task_of(job);
  const std::string& kind = job.data.kind;
  if (kind == "text") return {Shape{job.data.options.integer(data::kContext)}, 65, task};
  if (kind == "digits" || kind == "idx") return {Shape{1, 28, 28}, 10, task};
  if (kind == "cifar") return {Shape{3, 32, 32}, 10, task};
  if (kind == "csv") return {Shape{4}, 3, task};
  const Result<Shape> shape = data::parse_sample_shape(job.data.options.text(data::kSampleShape));
  EXPECT_TRUE(shape.ok()) << shape.status().to_string();
  const int classes = kind == "synthetic" ? data::find_kind(kind)->known(job.data.options).classes : 1000;
  return {shape.ok() ? *shape : Shape{1}, classes, task};
}

TEST(Recipes, EveryJobIsReadAndMakesSense) {
  for (const Recipe& r : all_recipes())
    EXPECT_TRUE(check_job(r.job).ok()) << r.name << ": " << check_job(r.job).to_string();
}

TEST(Recipes, ThoseThatUsersAreToldOfExist) {
  std::set<std::string> names;
  for (const Recipe& r : all_recipes()) names.insert(r.name);
  for (const char* name : {"digits", "mnist-mlp", "mnist-lenet", "lenet5", "speech-42m", "alexnet", "vgg",
                           "googlenet", "resnet50", "char-lstm", "char-gpt", "autoencoder", "facebook-1h"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* paper :
       {"distbelief-downpour", "parameter-server", "project-adam", "sparknet", "platoon-easgd", "petuum-ssp",
        "caffe-mpi", "horovod-ring", "hogwild", "cntk-block-momentum", "cntk-1bit", "sparcml", "terngrad",
        "powersgd", "poseidon", "dl4j-threshold", "onebit-adam", "moe"})
    EXPECT_TRUE(names.contains(paper)) << paper;
}

TEST(Recipes, AreNamedAfterTheirFileAndSayWhatTheyNeedAndWhatToExpect) {
  for (const Recipe& r : all_recipes()) {
    EXPECT_EQ(r.job.name, r.name);
    EXPECT_TRUE(r.text.starts_with("# ")) << r.name;
    if (r.name == "digits") continue;  // the built-in job has no name of its own data
    EXPECT_NE(r.text.find("\n# Data: "), std::string::npos) << r.name;
    EXPECT_NE(r.text.find("\n# Expected: "), std::string::npos) << r.name;
    EXPECT_TRUE(r.job.data.path.empty() || r.text.find("--set data.path=") != std::string::npos)
        << r.name << " does not say how to read from elsewhere";
  }
}

TEST(Recipes, EveryModelFitsItsData) {
  for (const Recipe& r : all_recipes()) {
    const Result<model::ModelGraphs> graphs = build_job_model(r.job, input_of(r.job), 2);
    ASSERT_TRUE(graphs.ok()) << r.name << ": " << graphs.status().to_string();
    const auto update = model::build_update(optimizer_spec(r.job), graphs->parameters);
    EXPECT_TRUE(update.ok()) << r.name << ": " << update.status().to_string();
  }
}

// The assignments of every "--set a=b c=d" in the comments; a quoted one may have blanks.
std::vector<std::string> sets_in(const std::string& text) {
  std::vector<std::string> sets;
  std::string words;
  for (std::size_t at = 0; (at = text.find('#', at)) != std::string::npos;) {
    const std::size_t end = text.find('\n', at);
    std::string line = text.substr(at + 1, end - at - 1);
    if (line.ends_with('\\')) line.pop_back();
    words += line + " ";
    at = end;
  }
  for (std::size_t at = 0; (at = words.find("--set ", at)) != std::string::npos;) {
    at += 6;
    while (true) {
      at = words.find_first_not_of(' ', at);
      if (at == std::string::npos) return sets;
      const bool quoted = words[at] == '\'';
      const std::size_t end = words.find_first_of(quoted ? "'" : " ", at + 1);
      std::string word = words.substr(at + (quoted ? 1 : 0), end - at - (quoted ? 1 : 0));
      if (word.find('=') == std::string::npos || word.starts_with("--")) break;
      if (!quoted) word.erase(word.find_last_not_of(".,;)`") + 1);
      sets.push_back(std::move(word));
      at = end + (quoted ? 1 : 0);
    }
  }
  return sets;
}

TEST(Recipes, TheSettingsThatCommentsProposeAreAccepted) {
  int found = 0;
  for (const Recipe& r : all_recipes()) {
    for (const std::string& set : sets_in(r.text)) {
      Job job = r.job;
      const Status status = set_job_key(job, set);
      EXPECT_TRUE(status.ok()) << r.name << ": " << set << ": " << status.to_string();
      ++found;
    }
  }
  EXPECT_GE(found, 40);
}

TEST(Recipes, TheSmallVersionOfFacebookFitsItsData) {
  for (const Recipe& r : all_recipes()) {
    if (r.name != "facebook-1h") continue;
    Job job = r.job;
    for (const std::string& set : sets_in(r.text.substr(r.text.find("# A small version"))))
      ASSERT_TRUE(set_job_key(job, set).ok()) << set;
    EXPECT_TRUE(check_job(job).ok()) << check_job(job).to_string();
    EXPECT_EQ(job.model.name, "resnet18");
    EXPECT_TRUE(build_job_model(job, input_of(job), job.train.batch / job.train.logical_shards).ok());
    const model::Schedule s = schedule_of(job);
    EXPECT_DOUBLE_EQ(model::schedule_at(s, 0, 900).lr, 0.1);
    EXPECT_NEAR(model::schedule_at(s, 51, 900).lr, 0.8, 1e-12);
    EXPECT_NEAR(model::schedule_at(s, 899, 900).lr, 0.8e-3, 1e-12);
  }
}

TEST(Recipes, FacebookHasTheRatesOfThePaper) {
  for (const Recipe& r : all_recipes()) {
    if (r.name != "facebook-1h") continue;
    const model::Schedule s = schedule_of(r.job);
    const auto rate = [&](double epoch) {
      return model::schedule_at(s, std::llround(epoch * 1e6), 90'000'000).lr;
    };
    EXPECT_NEAR(rate(0), 0.1, 1e-9);
    EXPECT_NEAR(rate(2.5), (0.1 + 3.2) / 2, 1e-3);
    EXPECT_NEAR(rate(5.1), 3.2, 1e-9);
    EXPECT_NEAR(rate(29.9), 3.2, 1e-9);
    EXPECT_NEAR(rate(30.1), 0.32, 1e-9);
    EXPECT_NEAR(rate(60.1), 0.032, 1e-9);
    EXPECT_NEAR(rate(80.1), 0.0032, 1e-9);
    EXPECT_TRUE(optimizer_spec(r.job).correct_momentum);
  }
}

TEST(Recipes, DigitsIsTheDefaultJob) {
  const Result<Job> job = parse_job(text_of(recipes() / "digits.toml"), "digits.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(to_toml(*job), to_toml(Job()));
  EXPECT_GE(job->given_at.size(), 12U) << "a file to start from names the keys that users touch";
}

}  // namespace
}  // namespace trireme::job
