// `mpirun -n N trireme train`: MPI as the transport, and as a mere launcher with our own transports.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> small_train(const std::string& run_dir, const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "--run-dir", run_dir};
  for (const char* set :
       {"train.logical_shards=4", "train.batch=60", "train.steps=12", "train.checkpoint_steps=6",
        "train.optimizer.lr=0.03", "data.limit_train=600", "data.limit_test=100", "model.name=mlp"})
    args.insert(args.end(), {"--set", set});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

Ran mpirun(const Workspace& w, int ranks, const std::vector<std::string>& arguments) {
  const char* program = std::getenv("TRIREME_MPIRUN");
  std::vector<std::string> argv{program != nullptr ? program : "mpirun", "-n", std::to_string(ranks),
                                binary_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return w.run_program(argv);
}

std::string sha_of(const Workspace& w, const std::string& run_dir) {
  const Json summary = w.json(run_dir + "/summary.json");
  EXPECT_TRUE(summary.value("finished", false)) << run_dir;
  return summary.value("parameters_sha256", "");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Mpirun, EveryTransportEndsInTheHashOfFourLocalWorkers) {
  const Workspace w;
  const Ran local = w.run(small_train("local", {"--workers", "4", "--quiet"}));
  ASSERT_EQ(local.code, 0) << local.err;
  for (const std::string transport : {"mpi", "shm", "tcp", "auto"}) {
    const Ran ran = mpirun(w, 4, small_train(transport, {"--transport", transport}));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(sha_of(w, transport), sha_of(w, "local")) << transport;
    const Json summary = w.json(transport + "/summary.json");
    EXPECT_EQ(summary.value("transport", ""), transport == "auto" ? "shm" : transport);
    EXPECT_EQ(summary.value("workers", 0), 4);
    EXPECT_EQ(count_of(ran.out, "Test accuracy "), 1U) << "only one rank reports\n" << ran.out;
    EXPECT_EQ(count_of(ran.err, "4 workers over"), 1U) << "only one rank shows progress\n" << ran.err;
  }
}

// State that four ranks divide is whole in the checkpoint, and any mesh goes on from it.
TEST(Mpirun, ARunOnAMeshGoesOnOnOtherMeshesOverMpi) {
  const Workspace w;
  const std::vector<std::string> tiles{"--set", "train.logical_tiles=2", "parallel.style=tensor",
                                       "train.optimizer.kind=adam"};
  const auto on = [&](const std::string& dir, const std::vector<std::string>& more) {
    std::vector<std::string> args = small_train(dir, {"--quiet"});
    args.insert(args.end(), tiles.begin(), tiles.end());
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const Ran alone = w.run(on("alone", {"--mesh", "data=1,model=1"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::vector<std::string> begun{"--mesh", "data=2,model=2", "--set", "parallel.zero=3"};
  const std::pair<const char*, int> meshes[] = {
      {"data=1,model=1", 1}, {"data=4,model=1", 4}, {"data=2,model=2", 4}};
  for (const auto& [mesh, ranks] : meshes) {
    SCOPED_TRACE(mesh);
    const std::string dir = fmt::format("moved-{}-{}", mesh, ranks);
    std::vector<std::string> broken = on(dir, begun);
    broken.insert(broken.end(), {"--transport", "tcp", "--fault", "3:error@collective:85"});
    EXPECT_EQ(w.run(broken).code, 1);
    ASSERT_EQ(w.read(dir + "/summary.json"), "");
    ASSERT_FALSE(std::filesystem::is_empty(w / (dir + "/checkpoints"))) << "it ended too early";
    const Ran ran = mpirun(w, ranks, on(dir, {"--transport", ranks > 1 ? "mpi" : "auto", "--mesh", mesh}));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(sha_of(w, dir), sha_of(w, "alone"));
    const Ran diff = w.run({"checkpoint", "diff", "alone", dir});
    EXPECT_EQ(diff.code, 0) << diff.out << diff.err;
  }
}

TEST(Mpirun, AFinishedRunIsReportedAgainAndAllRanksEndWell) {
  const Workspace w;
  ASSERT_EQ(mpirun(w, 2, small_train("run", {"--transport", "mpi", "--quiet"})).code, 0);
  const Ran again = mpirun(w, 2, small_train("run", {"--transport", "mpi", "--json"}));
  EXPECT_EQ(again.code, 0) << again.err;
  const Result<Json> summary = parse_json(again.out, "standard output");
  ASSERT_TRUE(summary.ok()) << again.out;
  EXPECT_EQ(summary->value("parameters_sha256", ""), sha_of(w, "run"));
}

TEST(Mpirun, MistakesEndTheJobWithAMessage) {
  const Workspace w;
  const Ran workers = mpirun(w, 2, small_train("a", {"--workers", "3"}));
  EXPECT_NE(workers.code, 0);
  EXPECT_NE(workers.err.find("openmpi started 2 ranks, but --workers is 3"), std::string::npos)
      << workers.err;
  ASSERT_EQ(mpirun(w, 2, small_train("b", {"--quiet", "--fault", "0:error@collective:5"})).code, 1);
  const Ran other = mpirun(w, 2, small_train("b", {"--quiet", "--set", "train.batch=32"}));
  EXPECT_NE(other.code, 0);
  EXPECT_NE(other.err.find("train.batch: 60 -> 32"), std::string::npos) << other.err;
  const Ran alone = w.run(small_train("c", {"--workers", "2", "--transport", "mpi"}));
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("run mpirun -n 2"), std::string::npos) << alone.err;
}

struct FaultCase {
  const char* fault;
  int culprit;
  const char* reason;
};

class MpiFaults : public ::testing::TestWithParam<FaultCase> {};

TEST_P(MpiFaults, EveryOtherRankNamesCulpritOperationAndReason) {
  const FaultCase& c = GetParam();
  const Workspace w;
  const Ran ran = mpirun(w, 3, small_train("run", {"--quiet", "--transport", "mpi", "--fault", c.fault}));
  EXPECT_NE(ran.code, 0) << ran.err;
  for (int r = 0; r < 3; ++r) {
    const Json failure = w.json("run/log/rank-" + std::to_string(r) + ".error.json");
    if (r == c.culprit && failure.is_null()) continue;  // paused: it could not write
    ASSERT_FALSE(failure.is_null()) << "rank " << r << "\n" << ran.err;
    EXPECT_EQ(failure.value("culprit", -1), c.culprit) << failure.dump();
    // The vote of a step or its sum, whichever comes first on the rank that is struck.
    EXPECT_NE(failure.value("operation", "").find("allreduce "), std::string::npos) << failure.dump();
    EXPECT_NE(failure.value("reason", "").find(c.reason), std::string::npos) << failure.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MpiFaults,
                         ::testing::Values(FaultCase{"2:pause@collective:10", 2, "silent"},
                                           FaultCase{"0:pause@collective:10", 0, "silent"},
                                           FaultCase{"1:miscall@collective:10", 1, "mismatch"},
                                           FaultCase{"2:error@collective:10", 2, "injected"}));

// Open MPI ends the whole job with the rank; its own words name it.
TEST(Mpirun, AKilledRankEndsTheJobAndIsNamed) {
  for (const int culprit : {0, 1}) {
    const Workspace w;
    const std::string rank = std::to_string(culprit);
    const Ran ran = mpirun(
        w, 3, small_train("run", {"--quiet", "--transport", "mpi", "--fault", rank + ":kill@collective:9"}));
    EXPECT_NE(ran.code, 0);
    EXPECT_NE(ran.err.find("process rank " + rank), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("signal 9"), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace trireme::system_test
