// Standardised features: every value of a sample less its mean, over its deviation, as the training samples
// have them.
#pragma once

#include <vector>

#include "trireme/data/dataset.h"

namespace trireme::data {

// Mean and deviation of the training samples of a set of stored features (kF32).
Standard measure_features(const Dataset& set);
// Rows of as many values as the standard has.
void standardise(const Standard& standard, std::span<float> rows);

}  // namespace trireme::data
