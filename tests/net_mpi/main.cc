// Every rank of `mpirun -n 4` runs the same tests in the same order. MPI lives as long as the program: it
// cannot be initialised a second time. A test of a smaller world is run by its first ranks.
#include <gtest/gtest.h>

#include <cstdio>

#include "trireme/net/mpi/session.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto session = trireme::net::mpi::start_session();
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().message().c_str());
    return 1;
  }
  if ((*session)->world() != 4) {
    std::fprintf(stderr, "start it as: mpirun -n 4 %s\n", argv[0]);
    return 1;
  }
  return RUN_ALL_TESTS();
}
