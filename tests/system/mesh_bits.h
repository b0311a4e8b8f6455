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

}  // namespace trireme::system_test
