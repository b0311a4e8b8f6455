// Jobs of rules over servers and peers whose workers see one class each and send encoded.
#pragma once

#include <string>

#include "trireme/job/job.h"
#include "trireme/start/simulate.h"

namespace trireme::train::testing {

job::Job coded_by_class(const std::string& rule, const std::string& codec);
// Rank 0's summary; a rank that fails fails the test.
record::Summary simulate_coded(const job::Job& job, bool phantom = false);

}  // namespace trireme::train::testing
