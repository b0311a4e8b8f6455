// Some meshes of workers over every transport end in one hash.
#include "tests/system/mesh_bits.h"

#include <gtest/gtest.h>

namespace trireme::system_test {
namespace {

TEST(MeshBits, AreTheSameOverEveryTransport) {
  expect_one_hash({{"data=1,model=1", "inproc"},
                   {"data=1,model=3", "inproc"},
                   {"data=2,model=2", "inproc"},
                   {"data=2,model=2", "shm"},
                   {"data=2,model=2", "tcp"}});
}

TEST(MeshBits, AreTheSameAfterAKillOnAnotherMeshOverAnotherTransport) {
  expect_the_hash_elsewhere({"data=2,model=2", "shm"}, "3:kill@collective:40", {"data=1,model=3", "tcp"});
}

}  // namespace
}  // namespace trireme::system_test
