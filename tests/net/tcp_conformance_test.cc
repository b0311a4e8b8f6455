#include <filesystem>

#include "tests/net/transport_conformance.h"

namespace trireme::net::testing {

struct TcpThreads {
  static void run(int world, const Body& body) {
    std::string dir = (std::filesystem::temp_directory_path() / "trireme-net-XXXXXX").string();
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    run_real("tcp", world, dir, body);
    std::filesystem::remove_all(dir);
  }
};
struct TcpVirtual {
  static void run(int world, const Body& body) { run_virtual("tcp", world, body); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(TcpThreads, TransportConformance, TcpThreads);
INSTANTIATE_TYPED_TEST_SUITE_P(TcpVirtual, TransportConformance, TcpVirtual);

}  // namespace trireme::net::testing
