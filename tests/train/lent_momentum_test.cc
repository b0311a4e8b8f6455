// Momentum that encoders make in place of the optimiser, and second moments that stay (1-bit Adam).
#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/job/job_parts.h"

namespace trireme::train::testing {
namespace {

job::Job lent_job(const std::string& kind, const std::string& codec) {
  job::Job job = tiny_job();
  job.train.logical_shards = 4;
  job.train.optimizer.kind = kind;
  job.train.optimizer.lr = kind == "momentum" ? 0.02 : 0.003;
  if (kind == "momentum") job.train.optimizer.options.set("momentum", 0.9);
  job.parallel.codec = codec;
  job.parallel.codec_options.set("least", 16);  // the model is tiny
  job.parallel.codec_options.set("momentum", 0.9);
  job.parallel.codec_options.set("dense_steps", 3);
  if (kind != "momentum") job.train.optimizer.options.set("fixed_after", 3);
  return job;
}

// Nothing is lost by an exact codec, so it does not matter who makes the momentum, before and after it
// begins.
TEST(LentMomentum, IsThatOfTheOptimiser) {
  for (const char* kind : {"momentum", "adam", "adamw"}) {
    VirtualRuns runs;
    job::Job job = lent_job(kind, "nonzero");
    job.parallel.codec_options.set("least", 1);  // second moments of all stay
    const record::Summary lent = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    job.parallel.codec = "none";
    const record::Summary own = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
    EXPECT_NE(lent.parameters_sha256, own.parameters_sha256) << kind;  // rounded in another place
    EXPECT_NEAR(lent.test_loss, own.test_loss, 1e-4) << kind;
    EXPECT_NEAR(lent.train_loss, own.train_loss, 1e-4) << kind;
  }
}

TEST(LentMomentum, HasTheSameBitsForAnyWorkersAndAfterAResume) {
  for (const char* kind : {"momentum", "adamw"})
    for (const char* reducer : {"gather", "split"})
      for (const int stop : {2, 5}) {  // before encoding begins, and after
        job::Job job = lent_job(kind, "1bit");
        job.parallel.reducer = reducer;
        VirtualRuns alone, disturbed;
        const record::Summary whole = alone.train(job, tiny_pictures(40, 10)).summary();
        job.parallel.workers = 3;
        EXPECT_FALSE(disturbed.train(job, tiny_pictures(40, 10), {.stop_at = stop}).summary().finished);
        job.parallel.workers = 2;
        const record::Summary rest = disturbed.train(job, tiny_pictures(40, 10)).summary();
        EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256) << kind << " " << reducer << " " << stop;
      }
}

// What a codec asks for where the job says nothing, and only there.
TEST(CodedStarts, FollowTheCodecAndTheOptimiser) {
  const auto start = [](const char* kind, const char* codec, std::int64_t fixed_after = 0) {
    job::Job job = tiny_job();
    job.train.optimizer.kind = kind;
    if (fixed_after > 0) job.train.optimizer.options.set("fixed_after", fixed_after);
    job.parallel.codec = codec;
    EXPECT_TRUE(job::check_job(job).ok()) << job::check_job(job).to_string();
    const job::CodedStart s = job::coded_start(job, job::sending_of(job));
    return fmt::format("{} {}", s.dense_steps, s.momentum);
  };
  EXPECT_EQ(start("momentum", "1bit"), "50 0.9");
  EXPECT_EQ(start("momentum", "topk"), "0 0");
  EXPECT_EQ(start("nesterov", "1bit"), "0 0");
  EXPECT_EQ(start("sgd", "1bit"), "0 0");
  EXPECT_EQ(start("adamw", "1bit"), "0 0");
  EXPECT_EQ(start("adamw", "1bit", 100), "100 0.9");
  EXPECT_EQ(start("adam", "threshold", 7), "7 0.9");
  EXPECT_EQ(start("adam", "qsgd", 7), "0 0");
  EXPECT_EQ(start("adam", "none", 7), "0 0");
  job::Job job = tiny_job();
  job.parallel.codec = "1bit";
  job.parallel.agreement = "bsp-server";
  EXPECT_EQ(job::coded_start(job, job::sending_of(job)).dense_steps, 0);
  job.parallel.agreement = "bsp";
  job.train.optimizer.options.set("weight_decay", 0.1);
  EXPECT_EQ(job::coded_start(job, job::sending_of(job)).momentum, 0);
  EXPECT_EQ(job::coded_start(job, job::sending_of(job)).dense_steps, 50);
  job.parallel.codec_options.set("feedback", false);
  EXPECT_EQ(job::coded_start(job, job::sending_of(job)).dense_steps, 0);
}

TEST(CodedStarts, AreWhatTheRowOfTheCodecSays) {
  codec::CodecRow row = **codec::find_codec("topk");
  row.safe_start = {.dense_steps = 3, .warmup_steps = 4, .steps_before_momentum = 5};
  const auto start = [&](const char* kind) {
    job::Job job = tiny_job();
    job.train.optimizer.kind = kind;
    const job::CodedStart s = job::coded_start(job, {job::Sending::Kind::kCoded, &row});
    return fmt::format("{} {} {}", s.dense_steps, s.warmup_steps, s.momentum);
  };
  EXPECT_EQ(start("sgd"), "3 4 0");
  EXPECT_EQ(start("momentum"), "5 4 0.9");
  row.safe_start.steps_before_momentum = 0;
  EXPECT_EQ(start("momentum"), "3 4 0");
  row.needs_feedback = false;
  EXPECT_EQ(start("momentum"), "0 0 0");
}

TEST(CodedStarts, OfRandomValuesAreDenseThenSparserAndSendATenthUnlessSet) {
  job::Job job = tiny_job();
  job.parallel.codec = "randomk";
  const codec::Coding coding = job::coding_of(job);
  EXPECT_EQ(coding.fraction_at(1000), 0.1);
  EXPECT_EQ(coding.momentum, 0.9);
  EXPECT_FALSE(coding.encodes_at(49));
  EXPECT_TRUE(coding.encodes_at(50));
  EXPECT_EQ(coding.fraction_at(50), 0.25);
  EXPECT_LT(coding.fraction_at(150), 0.2);
  EXPECT_EQ(coding.fraction_at(250), 0.1);
  EXPECT_TRUE(job::check_job(job).ok()) << job::check_job(job).to_string();
  job.train.optimizer.kind = "sgd";
  EXPECT_EQ(job::coding_of(job).momentum, 0);
  EXPECT_EQ(job::coding_of(job).dense_steps, 50);
  job.parallel.codec_options.set("fraction", 0.01);
  job.parallel.codec_options.set("dense_steps", 0);
  job.parallel.codec_options.set("warmup_steps", 0);
  EXPECT_EQ(job::coding_of(job).fraction_at(0), 0.01);
  EXPECT_TRUE(job::coding_of(job).encodes_at(0));
  job.parallel.agreement = "bsp-server";
  job.parallel.codec_options.erase("warmup_steps");
  EXPECT_EQ(job::coding_of(job).warmup_steps, 0);
  job.parallel.codec = "topk";
  job.parallel.codec_options.erase("fraction");
  EXPECT_EQ(job::coding_of(job).fraction_at(1000), 0.01);
}

TEST(FixedMoments, StayWithAndWithoutACodec) {
  VirtualRuns runs;
  job::Job job = lent_job("adamw", "none");
  job.train.optimizer.options.erase("fixed_after");
  const record::Summary moving = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  job.train.optimizer.options.set("fixed_after", 3);
  const record::Summary fixed = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  EXPECT_NE(fixed.parameters_sha256, moving.parameters_sha256);
  job.train.optimizer.options.set("fixed_after", 1'000'000);
  const record::Summary never = runs.train(job, tiny_pictures(40, 10), {.run_dir = ""}).summary();
  EXPECT_EQ(never.parameters_sha256, moving.parameters_sha256);
  job.train.optimizer.kind = "momentum";
  EXPECT_NE(job::check_job(job).message().find("it is for adam, adamw"), std::string::npos);
}

// Second moments of velocities would be wrong.
TEST(FixedMoments, AreAskedForWhereAdamLendsItsMomentum) {
  job::Job job = lent_job("adamw", "1bit");
  EXPECT_TRUE(job::check_job(job).ok()) << job::check_job(job).to_string();
  for (const std::int64_t after : {0, 4}) {
    job.train.optimizer.options.set("fixed_after", after);
    EXPECT_NE(job::check_job(job).message().find("codec_dense_steps = 3"), std::string::npos) << after;
  }
}

}  // namespace
}  // namespace trireme::train::testing
