// Stragglers from the command line: rank=R,factor=F, e.g. rank=2,factor=4.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::cli {

struct SlowOption {
  int rank = 0;
  double factor = 1;  // compute takes this many times as long
};

Result<std::vector<SlowOption>> parse_slow(const std::vector<std::string>& texts);
// 1 for ranks that nobody slows down.
double slow_factor_of(const std::vector<SlowOption>& slow, int rank);
// kInvalid names a rank that the job does not have.
Status check_slow(const std::vector<SlowOption>& slow, int world);

}  // namespace trireme::cli
