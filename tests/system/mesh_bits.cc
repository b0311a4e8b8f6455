#include "tests/system/mesh_bits.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

Ran train(const Workspace& w, const std::string& dir, const MeshBitsRun& run,
          const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"train", "--quiet", "--run-dir", dir, "--mesh", run.mesh};
  args.insert(args.end(), {"--transport", run.transport});
  args.insert(args.end(), more.begin(), more.end());
  args.insert(args.end(), {"--set", "train.logical_shards=4", "train.logical_tiles=4", "train.batch=24",
                           "train.steps=4", "train.checkpoint_steps=1", "model.name=mnist-cnn",
                           "model.options={scale=0.25}", "data.limit_train=96", "data.limit_test=20"});
  return w.run(args);
}

std::string hash_of(const Workspace& w, const std::string& dir, const MeshBitsRun& run) {
  const Ran ran = train(w, dir, run);
  EXPECT_EQ(ran.code, 0) << dir << "\n" << ran.err;
  return w.json(dir + "/summary.json").value("parameters_sha256", dir);
}
std::string hash_of(const Workspace& w, const MeshBitsRun& run) {
  return hash_of(w, fmt::format("{}:{}", run.transport, run.mesh), run);
}

}  // namespace

void expect_the_hash_elsewhere(const MeshBitsRun& begun, const char* fault, const MeshBitsRun& resumed) {
  const Workspace w;
  const std::string expected = hash_of(w, {"data=1,model=1", "inproc"});
  const Ran broken = train(w, "moved", begun, {"--fault", fault});
  EXPECT_EQ(broken.code, 1) << broken.err;
  EXPECT_EQ(w.read("moved/summary.json"), "");
  EXPECT_NE(broken.err.find("died by signal 9"), std::string::npos) << broken.err;
  ASSERT_FALSE(std::filesystem::is_empty(w / "moved/checkpoints")) << "killed too early\n" << broken.err;
  EXPECT_EQ(hash_of(w, "moved", resumed), expected) << broken.err;
}

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
