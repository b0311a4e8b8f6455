// `calibrate JOB`, as a user meets it, and what runs and plans say of it afterwards.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

constexpr const char* kJob = R"([train]
batch = 64
steps = 3
[data]
limit_train = 192
limit_test = 64
[parallel]
micro_batches = 4
[[model.layers]]
kind = "dense"
out = 32
activation = "relu"
[[model.layers]]
kind = "dense"
out = 48
activation = "relu"
[[model.layers]]
kind = "classifier"
)";

// With a state folder of its own.
Ran run(const Workspace& w, const std::string& command) {
  return w.run_program(
      {"/bin/sh", "-c", "export XDG_STATE_HOME=\"$PWD/state\"; exec \"$0\" " + command, binary_path()});
}

TEST(CalibrateJob, MeasuresEveryNodeOnceAndPredictionsUseIt) {
  const Workspace w;
  w.write("job.toml", kJob);
  const Ran first = run(w, "calibrate job.toml --mesh stage=2 --quick --json");
  ASSERT_EQ(first.code, 0) << first.err;
  const Json measured = *parse_json(first.out, "standard output");
  EXPECT_GT(measured["nodes"], 0);
  EXPECT_EQ(measured["measured"], measured["nodes"]);
  EXPECT_EQ(measured["known"], 0);
  EXPECT_FALSE(measured["families"].empty());
  const Json stored = w.json("state/trireme/calibration.json");
  EXPECT_EQ(stored["op_times"]["entries"].size(), measured["nodes"].get<std::size_t>());
  EXPECT_FALSE(stored["transports"].empty()) << "the machine was measured first";

  const Ran second = run(w, "calibrate job.toml --mesh stage=2 --quick --json");
  ASSERT_EQ(second.code, 0) << second.err;
  const Json known = *parse_json(second.out, "standard output");
  EXPECT_EQ(known["measured"], 0);
  EXPECT_EQ(known["known"], known["nodes"]);
  EXPECT_EQ(w.json("state/trireme/calibration.json"), stored);

  const Ran trained = run(w, "train job.toml --mesh stage=2 --run-dir r --quiet");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_GT(w.json("r/summary.json")["predicted_measured_fraction"], 0.95);
  const Ran elsewhere =
      run(w, "train job.toml --workers 2 --run-dir two --set parallel.micro_batches=0 train.batch=48");
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_LT(w.json("two/summary.json")["predicted_measured_fraction"], 0.5);
  EXPECT_NE(elsewhere.out.find("trireme calibrate JOB measures them"), std::string::npos) << elsewhere.out;
}

TEST(CalibrateJob, TrainsTheSameBitsWithAndWithoutIt) {
  const Workspace w;
  w.write("job.toml", kJob);
  ASSERT_EQ(run(w, "train job.toml --mesh stage=2 --run-dir before --quiet").code, 0);
  ASSERT_EQ(run(w, "calibrate job.toml --mesh stage=2 --quick").code, 0);
  ASSERT_EQ(run(w, "train job.toml --mesh stage=2 --run-dir after --quiet").code, 0);
  EXPECT_EQ(w.json("before/summary.json")["parameters_sha256"],
            w.json("after/summary.json")["parameters_sha256"]);
}

TEST(CalibrateJob, IsRefusedWhereTrainingIs) {
  const Workspace w;
  w.write("job.toml", kJob);
  expect_refused(w, {{{"calibrate", "job.toml", "--mesh", "stage=9"}, 2, "stage"},
                     {{"calibrate", "missing.toml"}, 2, "missing.toml"}});
}

}  // namespace
}  // namespace trireme::system_test
