#include <filesystem>

#include "tests/net/transport_conformance.h"

namespace trireme::net::testing {

struct ShmThreads {
  static void run(int world, const Body& body) {
    std::string dir = (std::filesystem::temp_directory_path() / "trireme-net-XXXXXX").string();
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    run_real("shm", world, dir, body);
    std::filesystem::remove_all(dir);
  }
};
struct ShmVirtual {
  static void run(int world, const Body& body) { run_virtual("shm", world, body); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ShmThreads, TransportConformance, ShmThreads);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmVirtual, TransportConformance, ShmVirtual);

}  // namespace trireme::net::testing
