// The long form of mesh_bits_test.cc: all meshes over all transports.
#include <gtest/gtest.h>

#include "tests/system/mesh_bits.h"

namespace trireme::system_test {
namespace {

TEST(MeshBitsLong, AreTheSameOnEightMeshesOverThreeTransports) {
  std::vector<MeshBitsRun> runs;
  for (const char* transport : {"inproc", "shm", "tcp"})
    for (const char* mesh : {"data=1,model=1", "data=1,model=2", "data=1,model=3", "data=1,model=4",
                             "data=2,model=2", "data=3,model=2", "data=4,model=1", "data=4,model=4"})
      runs.push_back({mesh, transport});
  expect_one_hash(runs);
}

TEST(MeshBitsLong, AreTheSameAfterAKillOnEveryOtherMesh) {
  for (const MeshBitsRun& resumed : {MeshBitsRun{"data=1,model=1", "inproc"},
                                     {"data=4,model=4", "shm"},
                                     {"data=3,model=2", "tcp"},
                                     {"data=1,model=4", "shm"}})
    for (const char* transport : {"shm", "tcp"})
      expect_the_hash_elsewhere({"data=2,model=2", transport}, "1:kill@collective:40", resumed);
}

}  // namespace
}  // namespace trireme::system_test
