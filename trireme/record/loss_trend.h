// LossTrend: losses of the first and of the latest steps of a run, over all its starts.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/status.h"

namespace trireme::record {

class LossTrend {
 public:
  static constexpr std::size_t kMost = 16;  // of each

  void add(double loss);  // of the next step; what is not finite counts as a very large loss
  std::int64_t steps() const { return steps_; }
  // Means over as many steps at both ends: a quarter of the run, at most kMost. 0 before the first step.
  double first() const;
  double last() const;

  Json to_json() const;
  static Result<LossTrend> from_json(const Json& json);

 private:
  std::size_t window() const;
  std::int64_t steps_ = 0;
  std::vector<double> first_, last_;
};

}  // namespace trireme::record
