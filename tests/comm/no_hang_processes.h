// The troubles of no_hang.h with real processes: culprit, operation and reason under a watchdog. The test
// program starts itself (its tests named NoHangProcesses) once per rank; an environment variable says which
// part to play.
#pragma once

#include <string>

namespace trireme::comm::testing {

// When this program was started as a rank: plays it and ends. Comes first in the test.
void be_a_rank_if_asked();
// Checks with EXPECT_* that every rank of every case was told what it should.
void check_processes(const std::string& transport);

}  // namespace trireme::comm::testing
