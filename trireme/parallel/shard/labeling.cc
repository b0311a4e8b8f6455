#include "trireme/parallel/shard/labeling.h"

#include <algorithm>
#include <limits>
#include <set>

#include "trireme/base/check.h"

namespace trireme::parallel {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A cost for each combination of labels; the last variable varies fastest.
struct CostTable {
  std::vector<int> variables;  // ascending
  std::vector<double> costs;
};

}  // namespace

class Elimination {
 public:
  Elimination(const Labeling& problem, std::int64_t most_entries)
      : problem_(problem), most_entries_(most_entries), neighbors_(problem.costs_.size()) {
    for (std::size_t v = 0; v < problem.costs_.size(); ++v) {
      tables_.push_back({{static_cast<int>(v)}, problem.costs_[v]});
      waiting_.insert(static_cast<int>(v));
    }
    for (const Labeling::Pair& pair : problem.pairs_) add_pair(pair);
    out_.labels.assign(problem.costs_.size(), -1);
  }

  Labeling::Outcome run() {
    while (!waiting_.empty()) {
      const int next = cheapest();
      if (entries_of(next) > most_entries_) {
        fix(busiest());
        continue;
      }
      eliminate(next);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
      out_.labels[at(step->variable)] = step->best[index_of(step->neighbors, out_.labels)];
    out_.cost = problem_.cost_of(out_.labels);
    return std::move(out_);
  }

 private:
  // The best label of a variable for each combination of its neighbors' labels.
  struct Step {
    int variable = 0;
    std::vector<int> neighbors, best;
  };

  int labels_of(int v) const { return problem_.num_labels(v); }

  void add_pair(const Labeling::Pair& pair) {
    const bool in_order = pair.a < pair.b;
    CostTable table{{std::min(pair.a, pair.b), std::max(pair.a, pair.b)}, pair.costs};
    if (!in_order)
      for (int i = 0; i < labels_of(pair.a); ++i)
        for (int j = 0; j < labels_of(pair.b); ++j)
          table.costs[at(j * labels_of(pair.a) + i)] = pair.costs[at(i * labels_of(pair.b) + j)];
    neighbors_[at(pair.a)].insert(pair.b);
    neighbors_[at(pair.b)].insert(pair.a);
    tables_.push_back(std::move(table));
  }

  // How many combinations eliminating the variable walks over.
  std::int64_t entries_of(int v) const {
    std::int64_t entries = labels_of(v);
    for (const int n : neighbors_[at(v)])
      if (__builtin_mul_overflow(entries, std::int64_t{labels_of(n)}, &entries))
        return std::numeric_limits<std::int64_t>::max();
    return entries;
  }

  int cheapest() const {
    return *std::min_element(waiting_.begin(), waiting_.end(), [&](int a, int b) {
      return std::pair(entries_of(a), a) < std::pair(entries_of(b), b);
    });
  }
  int busiest() const {
    return *std::max_element(waiting_.begin(), waiting_.end(), [&](int a, int b) {
      return std::pair(neighbors_[at(a)].size(), -a) < std::pair(neighbors_[at(b)].size(), -b);
    });
  }

  std::size_t index_of(const std::vector<int>& variables, const std::vector<int>& labels) const {
    std::size_t index = 0;
    for (const int v : variables) index = index * at(labels_of(v)) + at(labels[at(v)]);
    return index;
  }

  std::vector<CostTable> take_tables_of(int v) {
    const auto rest = std::stable_partition(tables_.begin(), tables_.end(), [&](const CostTable& t) {
      return !std::binary_search(t.variables.begin(), t.variables.end(), v);
    });
    std::vector<CostTable> taken(std::make_move_iterator(rest), std::make_move_iterator(tables_.end()));
    tables_.erase(rest, tables_.end());
    return taken;
  }

  void eliminate(int v) {
    const std::vector<CostTable> own = take_tables_of(v);
    Step step{v, {neighbors_[at(v)].begin(), neighbors_[at(v)].end()}, {}};
    CostTable made{step.neighbors, {}};
    std::vector<int> labels(problem_.costs_.size(), 0);
    bool more = true;
    while (more) {
      const auto [cost, best] = best_label(v, own, labels);
      made.costs.push_back(cost);
      step.best.push_back(best);
      more = advance(step.neighbors, labels);
    }
    forget(v);
    for (const int a : step.neighbors)
      for (const int b : step.neighbors)
        if (a != b) neighbors_[at(a)].insert(b);
    tables_.push_back(std::move(made));
    steps_.push_back(std::move(step));
  }

  std::pair<double, int> best_label(int v, const std::vector<CostTable>& tables,
                                    std::vector<int>& labels) const {
    std::pair<double, int> best{kInfinite, 0};
    for (int label = 0; label < labels_of(v); ++label) {
      labels[at(v)] = label;
      double cost = 0;
      for (const CostTable& t : tables) cost += t.costs[index_of(t.variables, labels)];
      if (cost < best.first) best = {cost, label};
    }
    return best;
  }

  // To the next combination, the last variable fastest; false after the last one.
  bool advance(const std::vector<int>& variables, std::vector<int>& labels) const {
    for (auto v = variables.rbegin(); v != variables.rend(); ++v) {
      if (++labels[at(*v)] < labels_of(*v)) return true;
      labels[at(*v)] = 0;
    }
    return false;
  }

  void forget(int v) {
    waiting_.erase(v);
    for (const int n : neighbors_[at(v)]) neighbors_[at(n)].erase(v);
    neighbors_[at(v)].clear();
  }

  // Takes the label whose tables are least, each at its best for the others, and puts it into the tables.
  void fix(int v) {
    out_.is_exact = false;
    std::vector<CostTable> own = take_tables_of(v);
    std::vector<double> least(at(labels_of(v)), 0);
    for (const CostTable& t : own) add_least(t, v, least);
    const int label = static_cast<int>(std::min_element(least.begin(), least.end()) - least.begin());
    for (const CostTable& t : own) tables_.push_back(restrict(t, v, label));
    forget(v);
    steps_.push_back({v, {}, {label}});
  }

  template <typename Fn>
  void for_each(const CostTable& t, const Fn& fn) const {
    std::vector<int> labels(problem_.costs_.size(), 0);
    std::size_t i = 0;
    bool more = true;
    while (more) {
      fn(t.costs[i++], labels);
      more = advance(t.variables, labels);
    }
  }

  void add_least(const CostTable& t, int v, std::vector<double>& least) const {
    std::vector<double> own(least.size(), kInfinite);
    for_each(t, [&](double cost, const std::vector<int>& labels) {
      double& to = own[at(labels[at(v)])];
      to = std::min(to, cost);
    });
    for (std::size_t i = 0; i < least.size(); ++i) least[i] += own[i];
  }

  CostTable restrict(const CostTable& t, int v, int label) const {
    CostTable out;
    std::copy_if(t.variables.begin(), t.variables.end(), std::back_inserter(out.variables),
                 [&](int other) { return other != v; });
    for_each(t, [&](double cost, const std::vector<int>& labels) {
      if (labels[at(v)] == label) out.costs.push_back(cost);
    });
    return out;
  }

  const Labeling& problem_;
  const std::int64_t most_entries_;
  std::vector<std::set<int>> neighbors_;
  std::vector<CostTable> tables_;
  std::set<int> waiting_;
  std::vector<Step> steps_;
  Labeling::Outcome out_;
};

int Labeling::add_variable(std::vector<double> costs) {
  TR_CHECK(!costs.empty(), "a variable has at least one label");
  costs_.push_back(std::move(costs));
  return static_cast<int>(costs_.size()) - 1;
}

void Labeling::add_costs(int variable, const std::vector<double>& costs) {
  std::vector<double>& own = costs_[at(variable)];
  TR_CHECK(costs.size() == own.size(), "costs of variable {}", variable);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] += costs[i];
}

void Labeling::add_pair(int a, int b, std::vector<double> costs) {
  TR_CHECK(a != b && costs.size() == at(num_labels(a)) * at(num_labels(b)), "costs of variables {} and {}", a,
           b);
  for (Pair& pair : pairs_) {
    if (pair.a != a || pair.b != b) continue;
    for (std::size_t i = 0; i < costs.size(); ++i) pair.costs[i] += costs[i];
    return;
  }
  pairs_.push_back({a, b, std::move(costs)});
}

double Labeling::cost_of(const std::vector<int>& labels) const {
  double cost = 0;
  for (std::size_t v = 0; v < costs_.size(); ++v) cost += costs_[v][at(labels[v])];
  for (const Pair& p : pairs_)
    cost += p.costs[at(labels[at(p.a)]) * at(num_labels(p.b)) + at(labels[at(p.b)])];
  return cost;
}

Labeling::Outcome Labeling::solve(std::int64_t most_entries) const {
  return Elimination(*this, most_entries).run();
}

}  // namespace trireme::parallel
