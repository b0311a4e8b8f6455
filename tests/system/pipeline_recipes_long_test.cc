// Models, data and optimizers of all recipes on two replicas of two stages, by every timetable that drains,
// in virtual time. A recipe's own [parallel] is left out: it has a mesh or a rule of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/system/recipe_runs.h"

namespace trireme::system_test {
namespace {

namespace fs = std::filesystem;

std::string without_parallel(const std::string& recipe) {
  std::ifstream in(recipe_file(recipe));
  std::string kept;
  bool skips = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) skips = line.starts_with("[parallel");
    if (!skips) kept += line + "\n";
  }
  return kept;
}

std::vector<std::string> all_recipes() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(recipe_file("gpipe")).parent_path()))
    if (!entry.path().stem().string().starts_with("cluster_")) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(PipelineRecipesLong, EveryModelTrainsOnStagesByEveryTimetable) {
  const Workspace w;
  w.write("shakespeare.txt", "to be, or not to be: that is the question.\n");
  fs::create_directory(w / "data");
  fs::rename(w / "shakespeare.txt", w / "data/shakespeare.txt");
  const std::vector<std::string> recipes = all_recipes();
  EXPECT_GE(recipes.size(), 40U);
  std::size_t trained = 0;
  for (const std::string& recipe : recipes) {
    w.write("job.toml", without_parallel(recipe));
    for (const char* kind : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"}) {
      const bool interleaves = std::string(kind) == "interleaved";
      const Ran ran = w.run({"simulate", "job.toml", "--json", "--algorithm", "fixed-tree", "--mesh",
                             "data=2,stage=2", "--steps", "1", "--batch-per-rank", "8", "--set",
                             "train.logical_shards=0", "parallel.micro_batches=4",
                             "parallel.virtual_stages=" + std::string(interleaves ? "2" : "1"),
                             "parallel.pipeline=" + std::string(kind)});
      const bool is_shallow = ran.err.find("layers between which it can be cut") != std::string::npos;
      EXPECT_TRUE(ran.code == 0 || is_shallow) << recipe << " by " << kind << "\n" << ran.err;
      trained += ran.code == 0 ? 1 : 0;
    }
  }
  EXPECT_GE(trained, 5 * recipes.size() - 11) << "seven models have less than four layers";
}

}  // namespace
}  // namespace trireme::system_test
