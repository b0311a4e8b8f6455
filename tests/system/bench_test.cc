// `trireme bench` as a user calls it: the rows it promises, absent peers, mistakes. No timing is asserted.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

Json rows_of(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Result<Json> report = parse_json(ran.out, "standard output");
  EXPECT_TRUE(report.ok()) << ran.out;
  return report.ok() ? report->value("rows", Json::array()) : Json::array();
}

void expect_rows(const Json& rows, const std::string& transport, int world) {
  ASSERT_EQ(rows.size(), 2U);
  for (const Json& row : rows) {
    for (const char* name : {"collective", "world", "bytes", "transport", "algorithm", "ours_us", "mpi_us",
                             "gloo_us", "predicted_us", "bound_us", "oversubscribed", "bound_fraction"})
      EXPECT_TRUE(row.contains(name)) << name;
    EXPECT_EQ(row.value("transport", ""), transport);
    EXPECT_EQ(row.value("world", 0), world);
    EXPECT_GT(row.value("ours_us", 0.0), 0.0);
    EXPECT_TRUE(row["mpi_us"].is_null());
  }
  EXPECT_EQ(rows[0].value("bytes", 0), 1024);
  EXPECT_EQ(rows[1].value("bytes", 0), 65536);
}

std::vector<std::string> quick(const std::string& collective, std::vector<std::string> more) {
  std::vector<std::string> args{"bench", collective,  "--bytes", "1K,64K", "--repeats",
                                "3",     "--seconds", "0.2",     "--json"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Bench, ThreadsOfOneProcessGiveRows) {
  const Workspace w;
  expect_rows(rows_of(w.run(quick("allreduce", {"--world", "2", "--transport", "inproc"}))), "inproc", 2);
}

TEST(Bench, ProcessesWithSharedMemoryGiveRows) {
  const Workspace w;
  expect_rows(rows_of(w.run(quick("allreduce", {"--world", "3", "--transport", "shm", "--out-of-place"}))),
              "shm", 3);
}

TEST(Bench, EveryCollectiveIsMeasuredAndItsResultChecked) {
  const Workspace w;
  for (const char* kind :
       {"reduce", "broadcast", "gather", "scatter", "allgather", "reduce_scatter", "all_to_all"})
    for (const char* place : {"--in-place", "--out-of-place"})
      EXPECT_EQ(rows_of(w.run(quick(kind, {"--world", "3", "--transport", "inproc", place}))).size(), 2U)
          << kind << place;
  EXPECT_EQ(rows_of(w.run(quick("barrier", {"--world", "2", "--transport", "inproc"}))).size(), 1U);
}

TEST(Bench, APeerThatIsNotThereIsAnErrorThatSaysHowToInstallIt) {
  const Workspace w;
  const std::vector<std::string> common{"--world",        "2",        "--transport",   "inproc", "--mpirun",
                                        "no-such-mpirun", "--python", "no-such-python"};
  const auto run = [&](const char* peer) {
    std::vector<std::string> args = common;
    args.insert(args.end(), {"--against", peer});
    return w.run(quick("allreduce", args));
  };
  const Ran mpi = run("mpi"), gloo = run("gloo");
  EXPECT_EQ(mpi.code, 1);
  EXPECT_EQ(mpi.out, "") << "no rows of null";
  EXPECT_NE(mpi.err.find("no-such-mpirun"), std::string::npos) << mpi.err;
  EXPECT_NE(mpi.err.find("apt install openmpi-bin"), std::string::npos) << mpi.err;
  EXPECT_EQ(gloo.code, 1);
  EXPECT_EQ(gloo.out, "");
  EXPECT_NE(gloo.err.find("no-such-python -m pip install torch"), std::string::npos) << gloo.err;
}

TEST(Bench, MistakesAreNamed) {
  const Workspace w;
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"bench", "allredcue"}, "allredcue"},
      {{"bench", "allreduce", "--bytes", "64K..1K"}, "64K..1K"},
      {{"bench", "allreduce", "--world", "0"}, "world size"},
      {{"bench", "allreduce", "--against", "nccl"}, "nccl"},
      {{"bench", "allreduce", "--algorithm", "magic"}, "magic"},
      {{"bench", "allreduce", "--transport", "pigeon"}, "pigeon"},
      {{"bench", "codec", "--codecs", "zip"}, "zip"},
      {{"bench", "codec", "--sizes", "much"}, "much"},
      {{"bench"}, "collective"},
  };
  for (const auto& [args, word] : cases) {
    const Ran ran = w.run(args);
    EXPECT_EQ(ran.code, 2) << word;
    EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace trireme::system_test
