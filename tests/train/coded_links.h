// Jobs of rules over servers and peers whose workers see one class each and send encoded.
#pragma once

#include <string>

#include "trireme/train/job.h"
#include "trireme/train/simulate.h"

namespace trireme::train::testing {

Job coded_by_class(const std::string& rule, const std::string& codec);
// Rank 0's summary; a rank that fails fails the test.
Summary simulate_coded(const Job& job, bool phantom = false);

}  // namespace trireme::train::testing
