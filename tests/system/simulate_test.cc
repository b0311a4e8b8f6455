// `trireme simulate` on topologies: what it prints, what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

TEST(Simulate, ATableHasARowPerAlgorithmAndNamesTheFastest) {
  const Workspace w;
  const Ran ran =
      w.run({"simulate", "allreduce", "--ranks", "16", "--topology", "fat-tree", "--bytes", "1MB"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("allreduce of 1.0 MiB by 16 virtual ranks on fat-tree: 16 machines, 20 switches"));
  for (const char* name : {"ring", "butterfly", "hierarchical", "rabenseifner", "one-shot", "fastest: "})
    EXPECT_THAT(ran.out, HasSubstr(name));
}

TEST(Simulate, JsonIsSortedByTimeAndRepeatsBitForBit) {
  const Workspace w;
  const std::vector<std::string> command{
      "simulate", "allreduce", "--ranks", "8", "--topology", "two-level,per_rack=4",  "--jitter", "0.5",
      "--bytes",  "64K",       "--seed",  "3", "--fault",    "loss,probability=0.01", "--json"};
  const Ran first = w.run(command), again = w.run(command);
  ASSERT_EQ(first.code, 0) << first.err;
  const Result<Json> report = parse_json(first.out, "standard output");
  const Result<Json> repeat = parse_json(again.out, "standard output");
  ASSERT_TRUE(report.ok() && repeat.ok());
  EXPECT_EQ((*report)["ranks"], 8);
  const Json& rows = (*report)["rows"];
  ASSERT_GE(rows.size(), 8U);
  EXPECT_EQ((*report)["fastest"], rows[0]["algorithm"]);
  double last = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const char* key : {"predicted_seconds", "rounds", "bytes_per_rank", "messages", "wall_seconds"})
      EXPECT_TRUE(rows[i].contains(key)) << rows[i].dump();
    EXPECT_GE(rows[i].value("virtual_seconds", -1.0), last);
    last = rows[i].value("virtual_seconds", 0.0);
    EXPECT_EQ(rows[i]["trace_hash"], (*repeat)["rows"][i]["trace_hash"]);
  }
}

TEST(Simulate, AClusterFileSetsTheSceneForCollectivesAndJobs) {
  const Workspace w;
  w.write("c.toml",
          "topology = \"two-level\"\nmachines = 8\nper_rack = 4\n[link]\nbandwidth = \"1gbit\"\n"
          "[[override]]\nmachines = [2]\nspeed = 0.25\n");
  const Ran broadcast = w.run({"simulate", "broadcast", "--cluster", "c.toml"});
  EXPECT_EQ(broadcast.code, 0) << broadcast.err;
  EXPECT_THAT(broadcast.out, HasSubstr("by 8 virtual ranks on two-level: 8 machines, 3 switches"));
  const Ran job = w.run({"simulate", "--ranks", "4", "--cluster", "c.toml", "--algorithm", "ring", "--json"});
  ASSERT_EQ(job.code, 0) << job.err;
  const Ran quick = w.run({"simulate", "--ranks", "4", "--algorithm", "ring", "--json"});
  EXPECT_GT((*parse_json(job.out, "out"))[0].value("step_seconds", 0.0),
            2 * (*parse_json(quick.out, "out"))[0].value("step_seconds", 1e9))
      << "a slow machine and slow links";
}

TEST(Simulate, CoresAndTheirSpeedAreThoseOfTheMachinesOfATopology) {
  const Workspace w;
  const auto compute = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"simulate", "--json", "--ranks", "2", "--topology", "1gbe-rack"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = w.run(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return Json::parse(ran.out)[0]["compute_seconds"].get<double>();
  };
  const double slow = compute({"--cores", "1", "--gflops", "1"});
  EXPECT_LT(compute({"--cores", "1", "--gflops", "2"}), 0.7 * slow);
  EXPECT_LT(compute({"--cores", "2", "--gflops", "1"}), 0.7 * slow);
}

TEST(Simulate, TheCollectiveOfTheJobIsSimulatedWhereItNamesOne) {
  const Workspace w;
  const auto algorithms = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"simulate", "--json", "--ranks", "2"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = w.run(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<std::string> names;
    for (const Json& row : Json::parse(ran.out)) names.push_back(row["algorithm"]);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(algorithms({}), (Names{"ring", "fixed-tree"}));
  EXPECT_EQ(algorithms({"--set", "parallel.collective=butterfly"}), Names{"butterfly"});
  EXPECT_EQ(algorithms({"--set", "parallel.collective=butterfly", "--algorithm", "ring"}), Names{"ring"});
}

// What is behind the last gradient of a worker alone are updates.
TEST(Simulate, AWorkerAloneExposesNoCommunication) {
  const Workspace w;
  const Ran ran = w.run({"simulate", "--json", "--ranks", "1", "--set", "model.name=speech-42m",
                         "data.kind=synthetic", "data.shape=440", "data.classes=8192"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json row = Json::parse(ran.out)[0];
  EXPECT_EQ(row["exposed_comm_seconds"], 0);
  EXPECT_NEAR(row["compute_seconds"].get<double>(), row["step_seconds"].get<double>(),
              0.01 * row["step_seconds"].get<double>());
}

TEST(Simulate, AKilledRankFailsTheRowsAndIsNamed) {
  const Workspace w;
  const Ran ran = w.run(
      {"simulate", "allreduce", "--ranks", "4", "--algorithm", "ring", "--fault", "2:kill@collective:1"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("failed on 4 of 4 ranks"));
  EXPECT_THAT(ran.out, HasSubstr("rank 2"));
}

TEST(Simulate, MistakesGetAClearMessageAndExitCodeTwo) {
  const Workspace w;
  w.write("bad.toml", "topology = \"two-level\"\nmachines = 4\n[link]\nlatency = \"soon\"\n");
  w.write("syntax.toml", "topology = \n");
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"simulate", "allreduce", "--topology", "star"},
       "topology: got 'star', expected one of single-switch"},
      {{"simulate", "allreduce", "--topology", "fat-tree,q=3"}, "q: unknown key"},
      {{"simulate", "allreduce", "--ranks", "4", "--topology", "dgx1"}, "machines: got 4, expected 8"},
      {{"simulate", "allreduce", "--ranks", "0"}, "--ranks"},
      {{"simulate", "--topology", "1gbe-rack", "--gbit", "10"}, "--gbit beside --topology"},
      {{"simulate", "--topology", "1gbe-rack", "--latency-us", "1"}, "--latency-us beside --topology"},
      {{"simulate", "allreduce", "--bytes", "many"}, "not a size"},
      {{"simulate", "allreduce", "--algorithm", "star"}, "no allreduce algorithm 'star'; there are: ring"},
      {{"simulate", "allreduce", "--link", "fast"}, "link.bandwidth: got \"fast\""},
      {{"simulate", "allreduce", "--cluster", "missing.toml"}, "missing.toml"},
      {{"simulate", "allreduce", "--cluster", "bad.toml"}, "bad.toml: link.latency: got \"soon\""},
      {{"simulate", "allreduce", "--cluster", "syntax.toml"}, "syntax.toml:1:"},
      {{"simulate", "allreduce", "--fault", "flood"}, "kind: got 'flood'"},
      {{"simulate", "allreduce", "--fault", "loss,probability=2"}, "probability: got 2, expected 0..1"},
      {{"simulate", "broadcast", "--ranks", "4", "--root", "4"}, "the root is rank 4: expected 0..3"},
      {{"simulate", "collective", "--kind", "allsum"}, "--kind"},
  };
  for (const auto& [arguments, says] : mistakes) {
    const Ran ran = w.run(arguments);
    std::string command = "trireme";
    for (const auto& a : arguments) command += " " + a;
    EXPECT_EQ(ran.code, 2) << command << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(says)) << command;
  }
}

}  // namespace
}  // namespace trireme::system_test
