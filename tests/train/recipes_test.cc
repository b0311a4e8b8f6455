// Every recipe that is a job can be read, and digits.toml is the default job written out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "trireme/train/job.h"

namespace trireme::train {
namespace {

std::filesystem::path recipes() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::filesystem::path(root != nullptr ? root : ".") / "recipes";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Recipes, EveryJobIsReadAndMakesSense) {
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(recipes())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("cluster_")) continue;  // machines, not jobs
    const Result<Job> job = parse_job(text_of(entry.path()), name);
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    EXPECT_TRUE(check_job(*job).ok()) << name << ": " << check_job(*job).to_string();
    ++jobs;
  }
  EXPECT_GE(jobs, 3);
}

TEST(Recipes, DigitsIsTheDefaultJobWithEveryKey) {
  const std::string text = text_of(recipes() / "digits.toml");
  const Result<Job> job = parse_job(text, "digits.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(to_toml(*job), to_toml(Job()));
  for (const JobKey& key : job_keys()) {
    const std::string_view name = key.path.substr(key.path.rfind('.') + 1);
    EXPECT_NE(text.find(fmt::format("\n{} = ", name)), std::string::npos) << key.path;
  }
}

}  // namespace
}  // namespace trireme::train
