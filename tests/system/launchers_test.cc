// Ranks that somebody else started, with nothing but variables in their environment.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> small_train(const std::string& run_dir, const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "--quiet", "--run-dir", run_dir};
  for (const char* set :
       {"train.logical_shards=3", "train.batch=60", "train.steps=8", "train.optimizer.lr=0.03",
        "data.limit_train=600", "data.limit_test=100", "model.name=mlp"})
    args.insert(args.end(), {"--set", set});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Starts three processes with `variables`, where R stands for the rank and JOB for a job id, and waits for
// all; fails with the first that fails.
Ran start_three(const Workspace& w, const std::string& variables, const std::vector<std::string>& arguments) {
  const std::string script =
      "JOB=$$; for R in 0 1 2; do export TMPDIR='" + w.path() + "' " + variables +
      "; \"$@\" & pids=\"$pids $!\"; done; code=0; for p in $pids; do wait $p || code=$?; done; "
      "exit $code";
  std::vector<std::string> argv{"/bin/sh", "-c", script, "sh", binary_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return w.run_program(argv);
}

std::string sha_of(const Workspace& w, const std::string& run_dir) {
  const Json summary = w.json(run_dir + "/summary.json");
  EXPECT_TRUE(summary.value("finished", false)) << run_dir;
  return summary.value("parameters_sha256", "");
}

struct Dialect {
  const char* name;
  const char* variables;
};

class Launched : public ::testing::TestWithParam<Dialect> {};

TEST_P(Launched, ThreeRanksFindEachOtherAndEndInTheHashOfOneWorker) {
  const Workspace w;
  ASSERT_EQ(w.run(small_train("alone", {})).code, 0);
  const Ran ran = start_three(w, GetParam().variables, small_train("run", {}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(sha_of(w, "run"), sha_of(w, "alone"));
  const Json summary = w.json("run/summary.json");
  EXPECT_EQ(summary.value("workers", 0), 3);
  EXPECT_EQ(summary.value("transport", ""), "shm");
  const std::size_t first = ran.out.find("Test accuracy ");
  EXPECT_NE(first, std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("Test accuracy ", first + 1), std::string::npos) << "only rank 0 reports";
}

INSTANTIATE_TEST_SUITE_P(
    Dialects, Launched,
    ::testing::Values(
        Dialect{"torchrun", "RANK=$R WORLD_SIZE=3 LOCAL_RANK=$R MASTER_ADDR=127.0.0.1 MASTER_PORT=29517"},
        Dialect{"openmpi",
                "OMPI_COMM_WORLD_RANK=$R OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=$R "
                "OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_MCA_ess_base_jobid=$JOB"},
        Dialect{"pmi", "PMI_RANK=$R PMI_SIZE=3 PMI_JOBID=$JOB"},
        Dialect{"slurm",
                "SLURM_PROCID=$R SLURM_NTASKS=3 SLURM_LOCALID=$R SLURM_JOB_ID=$JOB SLURM_JOB_NODELIST=node7"},
        Dialect{"own", "TRIREME_RANK=$R TRIREME_WORLD=3 TRIREME_RENDEZVOUS=."}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Launchers, RanksOfOneHostMeetOverTcpToo) {
  const Workspace w;
  ASSERT_EQ(w.run(small_train("alone", {})).code, 0);
  const Ran ran = start_three(w, "RANK=$R WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=29519",
                              small_train("run", {"--transport", "tcp"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(sha_of(w, "run"), sha_of(w, "alone"));
  EXPECT_EQ(w.json("run/summary.json").value("transport", ""), "tcp");
}

TEST(Launchers, RanksWithoutAPlaceToMeetAreToldWhatToSet) {
  const Workspace w;
  const Ran ran = start_three(w, "PMI_RANK=$R PMI_SIZE=3", small_train("run", {}));
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("set TRIREME_RENDEZVOUS"), std::string::npos) << ran.err;
}

TEST(Launchers, AFailureOfRankZeroIsEverybodysBeforeTheFirstStep) {
  const Workspace w;
  w.write("file", "no folder");
  const Ran ran = start_three(w, "RANK=$R WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29518",
                              small_train("file/run", {}));
  EXPECT_EQ(ran.code, 1) << ran.err;
  for (const char* rank : {"rank 0:", "rank 1:", "rank 2:"})
    EXPECT_NE(ran.err.find(rank), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("file/run"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace trireme::system_test
