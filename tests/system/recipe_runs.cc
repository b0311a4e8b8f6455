#include "tests/system/recipe_runs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace trireme::system_test {

std::string recipe_file(const std::string& recipe) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/recipes/" + recipe + ".toml";
}

Json train_recipe(const Workspace& w, const std::string& recipe, const std::string& run_dir,
                  const std::vector<std::string>& keys, const std::vector<std::string>& arguments,
                  int workers) {
  std::vector<std::string> args{"train", recipe_file(recipe), "--quiet", "--run-dir", run_dir};
  for (const std::string& key : keys) args.insert(args.end(), {"--set", key});
  args.insert(args.end(), arguments.begin(), arguments.end());
  const Ran ran = w.run(args);
  EXPECT_EQ(ran.code, 0) << recipe << ": " << ran.err;
  const Json summary = w.json(run_dir + "/summary.json");
  if (!summary.is_object()) return Json();
  EXPECT_TRUE(summary.value("finished", false)) << recipe;
  EXPECT_EQ(summary.value("job", ""), recipe);
  EXPECT_EQ(summary.value("workers", 0), workers) << recipe;
  return summary;
}

bool has_rank(const Workspace& w, int rank) {
  return std::filesystem::exists(w / ("run/log/rank-" + std::to_string(rank) + ".log"));
}

std::int64_t count_of(const Json& summary, const char* name) {
  return summary["rule"].value(name, std::int64_t{-1});
}

std::int64_t max_staleness(const Json& summary) {
  return summary["staleness"].value("max", std::int64_t{-1});
}

std::int64_t steps_of(const Json& summary, int worker) {
  return summary["per_worker"].at(static_cast<std::size_t>(worker)).value("steps", std::int64_t{0});
}

double sent_by(const Json& summary, int worker) {
  return summary["per_worker"].at(static_cast<std::size_t>(worker)).value("bytes_sent", 0.0);
}

}  // namespace trireme::system_test
