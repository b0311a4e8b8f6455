#include <gtest/gtest.h>

#include "tests/comm/no_hang_processes.h"

namespace trireme::comm::testing {
namespace {

class NoHangProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(NoHangProcesses, CulpritOperationAndReasonAreToldToEveryRank) {
  be_a_rank_if_asked();
  check_processes(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Real, NoHangProcesses, ::testing::Values("mpi"));

}  // namespace
}  // namespace trireme::comm::testing
