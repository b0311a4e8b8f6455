#include "trireme/record/loss_trend.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trireme::record {
namespace {

constexpr double kVeryLarge = 1e30;

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Result<std::vector<double>> numbers_of(const Json& json, const char* key) {
  TR_ASSIGN_OR_RETURN(std::vector<double> values, json_get<std::vector<double>>(json, key));
  if (values.size() > LossTrend::kMost)
    return error(Code::kCorrupt, "[checkpoint] '{}': got {} losses, expected at most {}", key, values.size(),
                 LossTrend::kMost);
  return values;
}

}  // namespace

void LossTrend::add(double loss) {
  const double value = std::isfinite(loss) ? std::min(loss, kVeryLarge) : kVeryLarge;
  ++steps_;
  if (first_.size() < kMost) first_.push_back(value);
  last_.push_back(value);
  if (last_.size() > kMost) last_.erase(last_.begin());
}

std::size_t LossTrend::window() const {
  return std::min<std::size_t>(
      {std::max<std::size_t>(1, static_cast<std::size_t>(steps_) / 4), kMost, first_.size(), last_.size()});
}

double LossTrend::first() const { return mean_of(std::span(first_).first(window())); }
double LossTrend::last() const { return mean_of(std::span(last_).last(window())); }

Json LossTrend::to_json() const { return {{"steps", steps_}, {"first", first_}, {"last", last_}}; }

Result<LossTrend> LossTrend::from_json(const Json& json) {
  LossTrend trend;
  TR_ASSIGN_OR_RETURN(trend.steps_, json_get<std::int64_t>(json, "steps"));
  TR_ASSIGN_OR_RETURN(trend.first_, numbers_of(json, "first"));
  TR_ASSIGN_OR_RETURN(trend.last_, numbers_of(json, "last"));
  return trend;
}

}  // namespace trireme::record
