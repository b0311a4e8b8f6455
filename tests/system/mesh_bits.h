// A small job in four tiles and four shards, trained on meshes over transports: all end in one hash. Layouts
// are left to the prices, which the job fixes.
#pragma once

#include <vector>

namespace trireme::system_test {

struct MeshBitsRun {
  const char* mesh;
  const char* transport;
};
// Trains them all from the command line, one after the other.
void expect_one_hash(const std::vector<MeshBitsRun>& runs);
// A rank is killed ("3:kill@collective:40") after a checkpoint; the run goes on elsewhere, to the same hash.
void expect_the_hash_elsewhere(const MeshBitsRun& begun, const char* fault, const MeshBitsRun& resumed);

}  // namespace trireme::system_test
