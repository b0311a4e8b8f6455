// Trouble on purpose, for tests and demonstrations: ranks that compute slowly or fail at a named place.
#pragma once

#include <vector>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::start {

struct SlowRank {
  int rank = 0;
  double factor = 1;  // compute takes this many times as long
};

struct RankFault {
  int rank = 0;
  runtime::RealFault fault;
};

// 1 for ranks that nobody slows down.
double slow_factor_of(const std::vector<SlowRank>& slow, int rank);
// Those that strike `rank`.
std::vector<runtime::RealFault> faults_of(const std::vector<RankFault>& faults, int rank);

// kInvalid names a rank that the job does not have.
Status check_slow(const std::vector<SlowRank>& slow, int world);
Status check_faults(const std::vector<RankFault>& faults, int world);
Status check_fault_rank(int rank, int world);

}  // namespace trireme::start
