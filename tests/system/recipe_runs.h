// Recipes as they are in the source tree, trained small.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/system/binary.h"

namespace trireme::system_test {

inline constexpr int kRecipeWorkers = 4;  // of nearly every recipe of several workers

std::string recipe_file(const std::string& recipe);

// Trains a recipe with its own [parallel] and these keys into a folder of the workspace; the arguments may
// hold options and keys. Returns summary.json, null where the run failed.
Json train_recipe(const Workspace& w, const std::string& recipe, const std::string& run_dir,
                  const std::vector<std::string>& keys, const std::vector<std::string>& arguments,
                  int workers = kRecipeWorkers);

// Whether a run in the folder "run" had a process of this rank.
bool has_rank(const Workspace& w, int rank);

// Entries of summary.json.
std::int64_t count_of(const Json& summary, const char* name);  // below "rule"; -1 where it has no such entry
std::int64_t max_staleness(const Json& summary);               // -1 likewise
std::int64_t steps_of(const Json& summary, int worker);
double sent_by(const Json& summary, int worker);

}  // namespace trireme::system_test
