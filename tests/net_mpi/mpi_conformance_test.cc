#include "tests/net/transport_conformance.h"
#include "tests/net_mpi/ranks.h"

namespace trireme::net::testing {

struct MpiProcesses {
  static void run(int world, const Body& body) { run_mpi(world, body); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(MpiProcesses, TransportConformance, MpiProcesses);

}  // namespace trireme::net::testing
