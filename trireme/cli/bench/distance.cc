// Rounds told apart by how far the cores were from each other.
#include <algorithm>
#include <cmath>

#include "trireme/cli/bench/report.h"

namespace trireme::cli::bench {
namespace {

constexpr double kDistinct = 2.5;

double median_ratio(const std::optional<measure::Timing>& theirs, const measure::Timing& ours,
                    const std::vector<std::size_t>& rounds) {
  if (!theirs) return 0;
  std::vector<double> ratios;
  for (const std::size_t i : rounds)
    if (i < theirs->rounds_us.size())
      ratios.push_back(theirs->rounds_us[i] / std::max(1e-3, ours.rounds_us[i]));
  return ratios.empty() ? 0 : measure::quantile(ratios, 0.5);
}

Distance pick(const std::vector<measure::BenchRow>& rows, int world, const char* name, double from,
              double below) {
  Distance d;
  d.name = name;
  std::vector<double> crossings;
  std::size_t total = 0;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const measure::BenchRow& row = rows[at];
    if (row.world != world) continue;
    total += row.crossing_ns.size();
    std::vector<std::size_t> rounds;
    std::vector<double> ours;
    for (std::size_t i = 0; i < std::min(row.crossing_ns.size(), row.ours.rounds_us.size()); ++i) {
      if (row.crossing_ns[i] < from || row.crossing_ns[i] >= below) continue;
      rounds.push_back(i);
      crossings.push_back(row.crossing_ns[i]);
      ours.push_back(row.ours.rounds_us[i]);
    }
    if (rounds.empty()) continue;
    d.entries.push_back({at, measure::quantile(ours, 0.5), median_ratio(row.mpi, row.ours, rounds),
                         median_ratio(row.gloo, row.ours, rounds)});
  }
  if (crossings.empty()) return d;
  d.crossing_ns = measure::quantile(crossings, 0.5);
  d.share = static_cast<double>(crossings.size()) / static_cast<double>(total);
  return d;
}

}  // namespace

std::vector<Distance> by_distance(const std::vector<measure::BenchRow>& rows) {
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [](const measure::BenchRow& r) { return !r.crossing_ns.empty(); });
  if (first == rows.end()) return {};
  std::vector<double> all;
  for (const measure::BenchRow& row : rows)
    if (row.world == first->world) all.insert(all.end(), row.crossing_ns.begin(), row.crossing_ns.end());
  // A rank that was put off the processor while it crossed says nothing about distance.
  const double low = std::max(1.0, measure::quantile(all, 0.05)), high = measure::quantile(all, 0.9);
  if (high < kDistinct * low) return {};
  const double between = std::sqrt(low * high);
  return {pick(rows, first->world, "near", 0, between), pick(rows, first->world, "far", between, INFINITY)};
}

}  // namespace trireme::cli::bench
