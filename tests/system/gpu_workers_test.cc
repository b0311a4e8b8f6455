// Workers on GPUs as processes: on the emulator (tests/gpu_emulator) with a made-up NCCL (tests/fake_nccl),
// so on every machine whose build has CUDA's headers.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GpuWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(build() + "/gpu_emulator/libcuda.so.1"))
      GTEST_SKIP() << "built without the headers of CUDA: no emulator";
  }
  static std::string build() { return std::filesystem::path(binary_path()).parent_path(); }

  // Five steps of a small net; `sets` are keys of the job, `environment` NAME=VALUE.
  Ran train(const std::string& run, int workers, const std::vector<std::string>& sets,
            const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> command{
        "env", "LD_LIBRARY_PATH=" + build() + "/gpu_emulator:" + build() + "/fake_nccl"};
    command.insert(command.end(), environment.begin(), environment.end());
    for (const std::string& word : {binary_path(), std::string("train"), std::string("--device"),
                                    std::string("cuda"), std::string("--workers"), std::to_string(workers),
                                    std::string("--run-dir"), run, std::string("--set")})
      command.push_back(word);
    for (const char* set : {"model.name=mlp", "train.batch=24", "train.steps=5", "data.limit_train=200",
                            "data.limit_test=24", "train.events=false"})
      command.emplace_back(set);
    command.insert(command.end(), sets.begin(), sets.end());
    return w_.run_program(command);
  }
  Json summary(const std::string& run) const { return w_.json(run + "/summary.json"); }
  void expect_run(const Ran& ran, const std::string& run, const std::string& way) const {
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(summary(run)["rule"]["device_collectives"], way);
  }

  const Workspace w_;
};

TEST_F(GpuWorkers, EndInTheSameBitsHoweverManyTheyAreAndHoweverGradientsAreAdded) {
  const std::string shards = "train.logical_shards=4";
  ASSERT_EQ(train("one", 1, {shards}).code, 0);
  const Json hash = summary("one")["parameters_sha256"];
  ASSERT_EQ(hash.get<std::string>().size(), 64U);
  expect_run(train("two", 2, {shards}), "two", "mapped");
  EXPECT_EQ(summary("two")["parameters_sha256"], hash);
  // Several buckets, which leave while backward runs.
  expect_run(train("three", 3, {shards, "parallel.bucket_bytes=100"}), "three", "mapped");
  EXPECT_EQ(w_.json("three/plan.json")["timetable"]["overlap"], "buckets");
  EXPECT_EQ(summary("three")["parameters_sha256"], hash);
  expect_run(train("staged", 2, {shards, "parallel.device_collectives=staged"}), "staged", "staged");
  EXPECT_EQ(summary("staged")["parameters_sha256"], hash);
}

TEST_F(GpuWorkers, AKilledWorkerIsNamedAndOthersGoOnToTheSameBits) {
  const std::string shards = "train.logical_shards=4", every_step = "train.checkpoint_steps=1";
  ASSERT_EQ(train("whole", 1, {shards, every_step}).code, 0);
  const Ran killed = train("run", 2, {shards, every_step, "--fault", "1:kill@collective:14"});
  EXPECT_NE(killed.code, 0);
  // Rank 0 may notice it in the bucket's barrier or between two of them.
  EXPECT_THAT(killed.err, AllOf(HasSubstr("rank 1 was lost in"), HasSubstr("connection closed")));
  expect_run(train("run", 3, {shards, every_step}), "run", "mapped");
  EXPECT_EQ(summary("run")["parameters_sha256"], summary("whole")["parameters_sha256"]);
}

TEST_F(GpuWorkers, PassThroughTheHostWhereMemoryCannotBeMappedAndSaySo) {
  const Ran ran = train("run", 2, {}, {"GPU_EMULATOR_IPC=0"});
  expect_run(ran, "run", "staged");
  EXPECT_THAT(w_.read("run/log/rank-0.log"), AllOf(HasSubstr("sharing GPU memory with other processes"),
                                                   HasSubstr("pass through the memory of the host")));
  const Ran asked = train("asked", 2, {"parallel.device_collectives=mapped"}, {"GPU_EMULATOR_IPC=0"});
  EXPECT_NE(asked.code, 0);
  EXPECT_THAT(asked.err, HasSubstr("sharing GPU memory with other processes"));
}

TEST_F(GpuWorkers, UseNcclWhereEachHasAGpuOfItsOwn) {
  expect_run(train("own", 2, {}, {"GPU_EMULATOR_DEVICES=2"}), "own", "nccl");
  expect_run(train("shared", 2, {}), "shared", "mapped");
  EXPECT_EQ(summary("own")["parameters_sha256"], summary("shared")["parameters_sha256"]);  // a sum of two
  expect_run(train("shards", 2, {"train.logical_shards=2"}, {"GPU_EMULATOR_DEVICES=2"}), "shards", "mapped");
  const Ran refused = train("refused", 2, {"train.logical_shards=2", "parallel.device_collectives=nccl"});
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("parallel.device_collectives"), HasSubstr("the same bits for any")));
}

// With steps of growing batches a model does not stay on the GPU: gradients are encoded on the host.
TEST_F(GpuWorkers, EncodeOnTheGpuWithTheBitsOfTheHost) {
  for (const std::string codec : {"bf16", "1bit", "topk"}) {
    const std::vector<std::string> sets = {"train.logical_shards=3", "train.optimizer.schedule=constant",
                                           "train.steps=3", "parallel.codec_dense_steps=0",
                                           "parallel.codec=" + codec};
    const auto with = [&](const std::string& more) {
      std::vector<std::string> all = sets;
      all.push_back(more);
      return all;
    };
    ASSERT_EQ(train(codec + "-host", 2, with("train.optimizer.max_batch_multiplier=2")).code, 0);
    EXPECT_FALSE(summary(codec + "-host")["rule"].contains("encoded_on"));
    const Json hash = summary(codec + "-host")["parameters_sha256"];
    ASSERT_EQ(train(codec + "-1", 1, sets).code, 0);
    EXPECT_EQ(summary(codec + "-1")["parameters_sha256"], hash) << codec;
    EXPECT_EQ(summary(codec + "-1")["rule"]["encoded_on"], "cuda");
    expect_run(train(codec + "-3", 3, with("parallel.bucket_bytes=100000")), codec + "-3", "mapped");
    EXPECT_EQ(summary(codec + "-3")["parameters_sha256"], hash) << codec;
    expect_run(train(codec + "-2", 2, with("parallel.device_collectives=staged")), codec + "-2", "staged");
    EXPECT_EQ(summary(codec + "-2")["parameters_sha256"], hash) << codec;
    const Json &staged = summary(codec + "-2"), &host = summary(codec + "-host");
    EXPECT_EQ(staged["rule"]["encoded_bytes"], host["rule"]["encoded_bytes"]) << codec;
    EXPECT_LT(staged["rule"]["host_copies_per_byte"].get<double>(), codec == "bf16" ? 1.6 : 0.2);
  }
}

TEST_F(GpuWorkers, TakeResidualsFromACheckpointToOtherWorkers) {
  const std::vector<std::string> sets = {"train.logical_shards=4", "train.checkpoint_steps=1",
                                         "train.steps=4", "parallel.codec_dense_steps=1",
                                         "parallel.codec=1bit"};
  ASSERT_EQ(train("whole", 1, sets).code, 0);
  std::vector<std::string> cut = sets;
  cut.insert(cut.end(), {"--fault", "1:kill@collective:12"});
  EXPECT_NE(train("run", 2, cut).code, 0);
  expect_run(train("run", 3, sets), "run", "mapped");
  EXPECT_EQ(summary("run")["parameters_sha256"], summary("whole")["parameters_sha256"]);
}

// Halves are added by NCCL itself, messages of others are gathered.
TEST_F(GpuWorkers, LetNcclCarryWhatIsEncoded) {
  const std::vector<std::string> two_gpus = {"GPU_EMULATOR_DEVICES=2"};
  for (const std::string codec : {"1bit", "topk"}) {
    expect_run(train(codec + "-nccl", 2,
                     {"train.steps=3", "parallel.codec_dense_steps=0", "parallel.codec=" + codec}, two_gpus),
               codec + "-nccl", "nccl");
    expect_run(train(codec + "-mapped", 2,
                     {"train.steps=3", "parallel.codec_dense_steps=0", "parallel.codec=" + codec}),
               codec + "-mapped", "mapped");
    EXPECT_EQ(summary(codec + "-nccl")["parameters_sha256"], summary(codec + "-mapped")["parameters_sha256"]);
  }
  expect_run(train("bf16", 2, {"parallel.codec=bf16"}, two_gpus), "bf16", "nccl");
  const Json sent = summary("bf16")["rule"]["encoded_bytes"];
  EXPECT_NEAR(sent.get<double>() / 5, summary("bf16")["bytes_dense_per_step"].get<double>() / 2, 5'000);
}

TEST_F(GpuWorkers, AFailureOfNcclEndsAllRanksAndNamesTheCall) {
  const Ran failed = train("error", 2, {}, {"GPU_EMULATOR_DEVICES=2", "FAKE_NCCL=rank=1,call=3,do=error"});
  EXPECT_NE(failed.code, 0);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("bucket 0"), HasSubstr("made to fail")));
  const Ran hung = train("hang", 2, {"parallel.deadline_ms=1000"},
                         {"GPU_EMULATOR_DEVICES=2", "FAKE_NCCL=rank=1,call=3,do=hang"});
  EXPECT_NE(hung.code, 0);
  EXPECT_FALSE(hung.timed_out);
  EXPECT_THAT(hung.err, AllOf(HasSubstr("bucket 0"), HasSubstr("not ended after 1000 ms")));
  const Ran died = train("die", 2, {}, {"GPU_EMULATOR_DEVICES=2", "FAKE_NCCL=rank=1,call=3,do=die"});
  EXPECT_NE(died.code, 0);
  EXPECT_FALSE(died.timed_out);
  EXPECT_THAT(died.err, HasSubstr("rank 1"));
}

}  // namespace
}  // namespace trireme::system_test
