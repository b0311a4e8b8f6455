#include "tests/system/mesh_bits.h"

#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::string hash_of(const Workspace& w, const MeshBitsRun& run) {
  const std::string dir = fmt::format("{}:{}", run.transport, run.mesh);
  const Ran ran = w.run({"train", "--quiet", "--run-dir", dir, "--mesh", run.mesh, "--transport",
                         run.transport, "--set", "train.logical_shards=4", "train.logical_tiles=4",
                         "train.batch=24", "train.steps=4", "model.name=mnist-cnn",
                         "model.options={scale=0.25}", "data.limit_train=96", "data.limit_test=20"});
  EXPECT_EQ(ran.code, 0) << dir << "\n" << ran.err;
  return w.json(dir + "/summary.json").value("parameters_sha256", dir);
}

}  // namespace

void expect_one_hash(const std::vector<MeshBitsRun>& runs) {
  const Workspace w;
  std::string expected;
  for (const MeshBitsRun& run : runs) {
    const std::string hash = hash_of(w, run);
    if (expected.empty()) expected = hash;
    EXPECT_EQ(hash.size(), 64U);
    EXPECT_EQ(hash, expected) << run.mesh << " over " << run.transport;
  }
}

}  // namespace trireme::system_test
