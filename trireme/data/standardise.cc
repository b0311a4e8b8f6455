#include "trireme/data/standardise.h"

#include <cmath>

namespace trireme::data {

Standard measure_features(const Dataset& set) {
  const auto elems = static_cast<std::size_t>(set.sample_elems());
  const auto count = static_cast<double>(set.num_train);
  Standard out;
  for (std::size_t j = 0; j < elems; ++j) {
    const auto value = [&](std::int64_t id) {
      return static_cast<double>(set.features[static_cast<std::size_t>(set.row_of(id)) * elems + j]);
    };
    double sum = 0, squares = 0;
    for (std::int64_t id = 0; id < set.num_train; ++id) sum += value(id);
    const double mean = sum / count;
    for (std::int64_t id = 0; id < set.num_train; ++id) squares += (value(id) - mean) * (value(id) - mean);
    const double deviation = std::sqrt(squares / count);
    out.mean.push_back(mean);
    out.scale.push_back(deviation > 0 ? 1 / deviation : 1);
  }
  return out;
}

void standardise(const Standard& standard, std::span<float> rows) {
  const std::size_t elems = standard.mean.size();
  TR_CHECK(elems > 0 && rows.size() % elems == 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t j = i % elems;
    rows[i] = static_cast<float>((static_cast<double>(rows[i]) - standard.mean[j]) * standard.scale[j]);
  }
}

}  // namespace trireme::data
