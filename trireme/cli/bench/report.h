// A measurement as people and machines read it. Pure: text out of values.
#pragma once

#include <string>

#include "trireme/base/json.h"
#include "trireme/measure/collective/driver.h"

namespace trireme::cli::bench {

std::string table_header(const measure::BenchOptions& options);
std::string table_row(const measure::BenchRow& row, const measure::BenchOptions& options);

// A goal over the rows of a range of sizes, worlds that fit the cores only.
struct Goal {
  std::string text;  // ">= 2x Open MPI from 1 to 4 MB"
  int met = 0, total = 0;
  // Rows whose upper quartile is below the goal: missed by more than the repeats spread.
  int missed_beyond_spread = 0;
  bool is_share = false;  // of the bound, instead of a ratio
  double worst = 0;       // ratio
  std::string worst_at;   // "16 KB, P=2"
};
// Allreduce over shm against Open MPI, over tcp against Gloo; with a link of its own for every rank, against
// the bound. Goals without rows are left out.
std::vector<Goal> check_goals(const std::vector<measure::BenchRow>& rows, bool own_links = false);

// |predicted / measured - 1| over the rows.
struct PredictionError {
  double median = 0, p90 = 0;
};
PredictionError prediction_error(const std::vector<measure::BenchRow>& rows);

// Virtual machines move their cores about: now near each other (a shared cache), now far. Rounds are told
// apart by the crossing of the start line where the largest takes more than 2.5 times the smallest.
struct Distance {
  std::string name;        // "near", "far"
  double crossing_ns = 0;  // median
  double share = 0;        // of the rounds
  // Per row that has such rounds: its index and the medians of theirs / ours, 0 where there is no such side.
  struct Entry {
    std::size_t row;
    double ours_us, mpi_ratio, gloo_ratio;
  };
  std::vector<Entry> entries;
};
// Empty when all rounds were alike. Rows of the first world that fits the cores.
std::vector<Distance> by_distance(const std::vector<measure::BenchRow>& rows);

// What comes below the table: what was absent, prediction error, goals, method.
std::string table_footer(const measure::Report& report, const measure::BenchOptions& options,
                         const std::string& models);
Json to_json(const measure::Report& report, const measure::BenchOptions& options, const std::string& models);

}  // namespace trireme::cli::bench
