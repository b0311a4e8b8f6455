// The least cost found by elimination is the least of all labelings, for problems that can be tried out.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trireme/base/rng.h"
#include "trireme/parallel/shard/labeling.h"

namespace trireme::parallel {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::vector<double> random_costs(Philox& rng, int count) {
  std::vector<double> costs;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t r = rng.next_u32() % 100;
    costs.push_back(r < 10 ? kInfinite : r);
  }
  return costs;
}

double least_of_all(const Labeling& problem, int num_variables) {
  std::vector<int> labels(static_cast<std::size_t>(num_variables), 0);
  double least = kInfinite;
  while (true) {
    least = std::min(least, problem.cost_of(labels));
    int v = num_variables - 1;
    while (v >= 0 && ++labels[static_cast<std::size_t>(v)] == problem.num_labels(v))
      labels[static_cast<std::size_t>(v--)] = 0;
    if (v < 0) return least;
  }
}

TEST(Labeling, IsTheCheapestOfAll) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Philox rng(seed);
    Labeling problem;
    const int n = 1 + static_cast<int>(rng.next_u32() % 7);
    for (int v = 0; v < n; ++v)
      problem.add_variable(random_costs(rng, 1 + static_cast<int>(rng.next_u32() % 4)));
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (a != b && rng.next_u32() % 3 == 0)
          problem.add_pair(a, b, random_costs(rng, problem.num_labels(a) * problem.num_labels(b)));
    const double least = least_of_all(problem, n);
    const Labeling::Outcome found = problem.solve();
    EXPECT_TRUE(found.is_exact);
    EXPECT_EQ(found.cost, least);
    if (std::isfinite(least)) {
      EXPECT_EQ(problem.cost_of(found.labels), least);
    }
    // With tables too small for anything it still ends, and never below the least.
    const Labeling::Outcome rough = problem.solve(2);
    EXPECT_GE(rough.cost, least);
  }
}

TEST(Labeling, SolvesALongLadderExactly) {
  // As a network and its gradients: every variable depends on the one before and on its twin.
  Labeling problem;
  constexpr int kLength = 400, kLabels = 6;
  Philox rng(7);
  for (int v = 0; v < 2 * kLength; ++v) problem.add_variable(random_costs(rng, kLabels));
  const auto join = [&](int a, int b) { problem.add_pair(a, b, random_costs(rng, kLabels * kLabels)); };
  for (int i = 0; i < kLength; ++i) {
    join(i, 2 * kLength - 1 - i);
    if (i + 1 < kLength) {
      join(i, i + 1);
      join(kLength + i, kLength + i + 1);
    }
  }
  EXPECT_TRUE(problem.solve().is_exact);
}

}  // namespace
}  // namespace trireme::parallel
