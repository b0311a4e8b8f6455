// What a user meets: the default job, finished runs, machine-readable output, and mistakes.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> tiny(std::vector<std::string> more) {
  std::vector<std::string> args{
      "train", "--set", "train.steps=2", "--set", "data.limit_train=200", "--set", "data.limit_test=40"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(CommandLine, TheDefaultJobLearnsTheDigits) {
  const Workspace w;
  const Ran ran = w.run({"train", "--json", "--quiet"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> summary = parse_json(ran.out, "standard output");
  ASSERT_TRUE(summary.ok()) << ran.out;
  EXPECT_GE(summary->value("test_accuracy", 0.0), 0.985);
  EXPECT_EQ(summary->value("parameters_sha256", ""),
            w.json("runs/digits-1/summary.json").value("parameters_sha256", "-"));
  EXPECT_NE(ran.err.find("Test accuracy "), std::string::npos) << ran.err;
}

TEST(CommandLine, ASummaryHasEveryPromisedName) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny({"--quiet"})).code, 0);
  const Json summary = w.json("runs/digits-1/summary.json");
  for (const char* name : {"job",
                           "workers",
                           "servers",
                           "agreement",
                           "codec",
                           "transport",
                           "device",
                           "steps",
                           "epochs",
                           "samples",
                           "wall_seconds",
                           "samples_per_second",
                           "train_loss",
                           "test_loss",
                           "test_accuracy",
                           "bytes_sent_per_step",
                           "bytes_dense_per_step",
                           "compute_fraction",
                           "exposed_comm_fraction",
                           "scaling_efficiency",
                           "scaling_efficiency_from",
                           "communication_efficiency",
                           "staleness",
                           "drift",
                           "predicted_step_seconds",
                           "measured_step_seconds",
                           "parameters_sha256",
                           "ok"})
    EXPECT_TRUE(summary.contains(name)) << name;
  for (const char* file : {"job.toml", "plan.json", "metrics.jsonl"})
    EXPECT_NE(w.read(std::string("runs/digits-1/") + file), "") << file;
}

TEST(CommandLine, AFinishedRunIsFollowedByANewOneUnlessTheFolderIsNamed) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny({"--quiet"})).code, 0);
  ASSERT_EQ(w.run(tiny({"--quiet"})).code, 0);
  EXPECT_FALSE(w.json("runs/digits-2/summary.json").is_null());
  const Ran again = w.run(tiny({"--run-dir", "runs/digits-1"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("Results: runs/digits-1"), std::string::npos) << again.out;
}

TEST(CommandLine, WithoutATerminalProgressComesInPlainLines) {
  const Workspace w;
  const Ran ran = w.run(tiny({}));
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err.find('\r'), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("test accuracy"), std::string::npos) << ran.err;
}

TEST(CommandLine, AnUnfinishedRunOfAnotherJobIsRefusedWithTheDifference) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny({"--quiet", "--run-dir", "r", "--fault", "0:error@collective:3"})).code, 1);
  const Ran other = w.run(tiny({"--run-dir", "r", "--set", "train.batch=64"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("train.batch: 128 -> 64"), std::string::npos) << other.err;
}

TEST(CommandLine, SimulateGivesTheHashOfTheRealRun) {
  const Workspace w;
  const std::vector<std::string> sets{"--set", "train.logical_shards=6", "--set", "train.batch=60"};
  std::vector<std::string> train = tiny({"--quiet"}),
                           simulate{"simulate", "--ranks",           "3",          "--compute",
                                    "real",     "--algorithm",       "fixed-tree", "--json",
                                    "--set",    "train.steps=2",     "--set",      "data.limit_train=200",
                                    "--set",    "data.limit_test=40"};
  train.insert(train.end(), sets.begin(), sets.end());
  simulate.insert(simulate.end(), sets.begin(), sets.end());
  ASSERT_EQ(w.run(train).code, 0);
  const Ran ran = w.run(simulate);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> rows = parse_json(ran.out, "standard output");
  ASSERT_TRUE(rows.ok()) << ran.out;
  EXPECT_EQ((*rows)[0].value("parameters_sha256", ""),
            w.json("runs/digits-1/summary.json").value("parameters_sha256", "-"));
}

TEST(CommandLine, InspectListsOpsWithWhatTheyHave) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "ops", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> rows = parse_json(ran.out, "standard output");
  ASSERT_TRUE(rows.ok());
  EXPECT_GE(rows->size(), 30U);
  for (const Json& row : *rows)
    for (const char* key : {"name", "family", "has_grad", "has_cost", "has_layout", "devices"})
      EXPECT_TRUE(row.contains(key)) << row.dump();
}

TEST(CommandLine, InspectOpTellsWhatACallCosts) {
  const Workspace w;
  const Ran ran =
      w.run({"inspect", "op", "matmul", "--in", "f32[64, 256]", "--in", "f32[256, 10]", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> op = parse_json(ran.out, "standard output");
  ASSERT_TRUE(op.ok()) << ran.out;
  const Json& call = (*op)["call"];
  EXPECT_EQ(call["outputs"][0], "f32[64, 10]");
  EXPECT_EQ(call["flops"], 2.0 * 64 * 256 * 10);
  EXPECT_EQ(call["work"], 64.0 * 256 * 10);  // W = Cout Cin N
  EXPECT_EQ(call["depth"], 8);               // D = log2 Cin
  EXPECT_EQ(call["average_parallelism"], 64.0 * 256 * 10 / 8);
}

TEST(CommandLine, MistakesGetAClearMessageAndAnExitCode) {
  const Workspace w;
  w.write("unknown.toml", "[train]\nepoch = 3\n");
  w.write("syntax.toml", "[train\nepochs = 3\n");
  w.write("type.toml", "[train]\nepochs = \"three\"\n");
  const std::vector<Refusal> mistakes{
      {{}, 2, "--help"},
      {{"trian"}, 2, "--help"},
      {{"train", "--bogus"}, 2, "--bogus"},
      {{"train", "missing.toml"}, 2, "missing.toml"},
      {{"train", "unknown.toml"},
       2,
       "unknown.toml:2:9: unknown key 'train.epoch'; did you mean 'train.epochs'?"},
      {{"train", "syntax.toml"}, 2, "syntax.toml:1:"},
      {{"train", "type.toml"}, 2, "expected an integer"},
      {{"train", "--set", "train.epochs"}, 2, "expected key=value"},
      {{"train", "--set", "train.epochs=many"}, 2, "expected an integer"},
      {{"train", "--set", "train.epochs=0"}, 2, "train.epochs"},
      {{"train", "--set", "train.optimizer.lr=-1"}, 2, "above 0"},
      {{"train", "--set", "model.name=alexnot"}, 2, "lenet"},
      {{"train", "--set", "parallel.agreement=magic"}, 2, "bsp"},
      {{"train", "--set", "parallel.collective=star"}, 2, "ring"},
      {{"train", "--set", "parallel.transport=pigeon"}, 2, "auto, shm, tcp, mpi, inproc"},
      {{"train", "--workers", "4", "--set", "train.logical_shards=2"}, 2, "--workers 2"},
      {{"train", "--set", "train.batch=4", "--set", "train.logical_shards=8"}, 2, "train.batch"},
      {{"train", "--workers", "0"}, 2, "--workers"},
      {{"train", "--fault", "kill rank 1"}, 2, "RANK:KIND@SITE:INDEX"},
      {{"train", "--run-dir", "unknown.toml/x"}, 1, "unknown.toml/x"},
      {{"simulate", "--compute", "imaginary"}, 2, "--compute"},
      {{"simulate", "--ranks", "0"}, 2, "--ranks"},
      {{"inspect", "op", "no_such_op"}, 2, "trireme inspect ops"},
      {{"inspect", "op", "matmul", "--in", "f32[2, 3]", "--in", "f32[4, 5]"}, 2, "inner dimensions"},
      {{"inspect", "op", "relu", "--in", "f99[2]"}, 2, "unknown dtype"},
      {{"inspect", "op", "relu", "--in", "f32[2]", "--attr", "slope=1"}, 2, "slope"},
      {{"inspect"}, 2, "--help"},
      {{"inspect", "everything"}, 2, "--help"},
  };
  expect_refused(w, mistakes);
}

}  // namespace
}  // namespace trireme::system_test
