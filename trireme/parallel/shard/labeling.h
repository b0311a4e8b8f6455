// Labeling: a label for every variable so that a sum of costs is least. Pure; no word of layouts.
//
// Costs are tables over one variable (what a label costs) or two (what a pair of labels costs). Variables are
// eliminated one after the other, the cheapest first: a variable's tables become one table over its
// neighbors, which holds the best label for each of their combinations (bucket elimination, Dechter 1999; the
// node and edge eliminations of OptCNN, Jia et al. 2018, are its cases with one and two neighbors). That is
// exact. Where a table would become too large the variable with most neighbors gets the label that looks best
// alone, and the result says so.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::parallel {

class Labeling {
 public:
  // Returns the variable. Costs may be infinite; at least one label.
  int add_variable(std::vector<double> costs);
  // Added to what its labels cost.
  void add_costs(int variable, const std::vector<double>& costs);
  // costs[label of a * labels of b + label of b]; added to what the pair has.
  void add_pair(int a, int b, std::vector<double> costs);
  int num_labels(int variable) const {
    return static_cast<int>(costs_[static_cast<std::size_t>(variable)].size());
  }

  struct Outcome {
    std::vector<int> labels;
    double cost = 0;       // infinite: no labels go together
    bool is_exact = true;  // no variable was fixed before its turn
  };
  // `most_entries`: of a table.
  Outcome solve(std::int64_t most_entries = std::int64_t{1} << 20) const;
  // What these labels cost.
  double cost_of(const std::vector<int>& labels) const;

 private:
  struct Pair {
    int a = 0, b = 0;
    std::vector<double> costs;
  };
  friend class Elimination;
  std::vector<std::vector<double>> costs_;
  std::vector<Pair> pairs_;
};

}  // namespace trireme::parallel
