#include "tests/net/transport_conformance.h"

namespace trireme::net::testing {

struct InprocThreads {
  static constexpr bool kBounded = false;  // mailboxes keep what comes
  static void run(int world, const Body& body) { run_real("inproc", world, "", body); }
};
struct InprocVirtual {
  static constexpr bool kBounded = false;
  static void run(int world, const Body& body) { run_virtual("inproc", world, body); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(InprocThreads, TransportConformance, InprocThreads);
INSTANTIATE_TYPED_TEST_SUITE_P(InprocVirtual, TransportConformance, InprocVirtual);

}  // namespace trireme::net::testing
