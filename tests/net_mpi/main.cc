// Every rank of `mpirun -n 4` runs the same tests in the same order. MPI lives as long as the program: it
// cannot be initialised a second time. A test of a smaller world is run by its first ranks.
#include <gtest/gtest.h>

#include <cstdio>

#include "trireme/net/mpi/environment.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto environment = trireme::net::mpi::start_environment();
  if (!environment.ok()) {
    std::fprintf(stderr, "%s\n", environment.status().message().c_str());
    return 1;
  }
  if ((*environment)->world() != 4) {
    std::fprintf(stderr, "start it as: mpirun -n 4 %s\n", argv[0]);
    return 1;
  }
  return RUN_ALL_TESTS();
}
