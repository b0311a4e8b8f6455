#include "trireme/train/job.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::train {
namespace {

void expect_says(const Status& status, std::string_view fragment) {
  EXPECT_EQ(status.code(), Code::kInvalid) << fragment;
  EXPECT_NE(status.message().find(fragment), std::string::npos)
      << "got: " << status.message() << "\nexpected: " << fragment;
}

// Writes the value of a key other than its default, by the key's type.
void change(Job& job, const JobKey& key) {
  if (const auto* get = std::get_if<0>(&key.field)) *(*get)(job) += 12345678901;
  if (const auto* get = std::get_if<1>(&key.field)) *(*get)(job) = 1.0 / 3.0;
  if (const auto* get = std::get_if<2>(&key.field)) *(*get)(job) = "a \"quoted\" \\ text,\n\tit's \x01";
  if (const auto* get = std::get_if<3>(&key.field)) *(*get)(job) = !*(*get)(job);
}

TEST(Job, ReadsEveryKindOfValueFromTomlAndKeepsDefaultsForTheRest) {
  const Result<Job> job = parse_job(R"(
name = "mine"
[model]
name = "mlp"
[train]
epochs = 7
optimizer = { lr = 1, momentum = 0.5, nesterov = true }
[parallel]
workers = 3
)",
                                    "job.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->name, "mine");
  EXPECT_EQ(job->model.name, "mlp");
  EXPECT_EQ(job->train.epochs, 7);
  EXPECT_EQ(job->train.optimizer.lr, 1.0) << "a whole number is a number";
  EXPECT_EQ(job->train.optimizer.momentum, 0.5);
  EXPECT_TRUE(job->train.optimizer.nesterov);
  EXPECT_EQ(job->parallel.workers, 3);
  EXPECT_EQ(job->train.batch, Job().train.batch);
  EXPECT_EQ(job->train.optimizer.schedule, Job().train.optimizer.schedule);
}

TEST(Job, AnEmptyFileIsTheDefaultJobAndThatIsRight) {
  const Result<Job> job = parse_job("", "job.toml");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(to_toml(*job), to_toml(Job()));
  EXPECT_TRUE(check_job(*job).ok()) << check_job(*job).to_string();
}

TEST(Job, AnUnknownKeyIsRefusedWithItsPlaceAndTheNearestKnownOne) {
  const Status status = parse_job("name = 'x'\n[train]\n  epoch = 3\n", "jobs/a.toml").status();
  expect_says(status, "jobs/a.toml:3:11: ");
  expect_says(status, "unknown key 'train.epoch'; did you mean 'train.epochs'?");
  expect_says(parse_job("[train.optimiser]\nlr = 1.0\n", "j").status(), "did you mean 'train.optimizer.lr'?");
  expect_says(parse_job("train = 3\n", "j").status(), "j:1:9: [job] unknown key 'train'");
}

TEST(Job, AValueOfTheWrongTypeIsRefusedWithItsPlace) {
  struct Case {
    const char* toml;
    const char* said;
  };
  const Case cases[] = {
      {"[train]\nepochs = 2.5",
       "j:2:10: [job] key 'train.epochs': got floating-point, expected a whole number"},
      {"[train]\nepochs = '2'", "got string, expected a whole number"},
      {"[train]\nepochs = [2]", "got array, expected a whole number"},
      {"[train.optimizer]\nlr = '0.1'", "'train.optimizer.lr': got string, expected a number"},
      {"[train.optimizer]\nnesterov = 1", "got integer, expected true or false"},
      {"[model]\nname = 3", "'model.name': got integer, expected a text"},
  };
  for (const Case& c : cases) expect_says(parse_job(c.toml, "j").status(), c.said);
}

TEST(Job, BrokenTomlIsRefusedWithItsPlace) {
  const Status status = parse_job("name = 'x'\n[train\n", "job.toml").status();
  expect_says(status, "job.toml:2:");
  expect_says(status, "not valid TOML");
  expect_says(parse_job("a = 1\na = 2\n", "job.toml").status(), "job.toml:2:");
}

TEST(SetJobKey, AppliesEveryKindOfValue) {
  Job job;
  for (const char* assignment : {"train.epochs=5", "train.optimizer.lr=1e-3", "train.optimizer.nesterov=true",
                                 "model.name=linear", "name=a=b", "data.seed=-1"})
    EXPECT_TRUE(set_job_key(job, assignment).ok()) << assignment;
  EXPECT_EQ(job.train.epochs, 5);
  EXPECT_EQ(job.train.optimizer.lr, 1e-3);
  EXPECT_TRUE(job.train.optimizer.nesterov);
  EXPECT_EQ(job.model.name, "linear");
  EXPECT_EQ(job.name, "a=b");
  EXPECT_EQ(job.data.seed, -1);
  EXPECT_TRUE(set_job_key(job, "train.optimizer.nesterov=false").ok());
  EXPECT_FALSE(job.train.optimizer.nesterov);
}

TEST(SetJobKey, RefusesWhatItCannotReadAndLeavesTheJobAlone) {
  Job job;
  expect_says(set_job_key(job, "train.epochs"), "got 'train.epochs', expected key=value");
  expect_says(set_job_key(job, "train.epoch=5"), "did you mean 'train.epochs'?");
  expect_says(set_job_key(job, "train.epochs=five"), "got 'five', expected a whole number");
  expect_says(set_job_key(job, "train.epochs=5x"), "got '5x', expected a whole number");
  expect_says(set_job_key(job, "train.epochs="), "got '', expected a whole number");
  expect_says(set_job_key(job, "train.epochs=99999999999999999999"), "expected a whole number");
  expect_says(set_job_key(job, "train.optimizer.lr=0,1"), "got '0,1', expected a number");
  expect_says(set_job_key(job, "train.optimizer.nesterov=yes"), "got 'yes', expected true or false");
  EXPECT_EQ(to_toml(job), to_toml(Job()));
}

TEST(CheckJob, RefusesEveryMistakeAndSaysWhatToChange) {
  struct Case {
    std::vector<std::string> set;
    const char* said;
  };
  const Case cases[] = {
      {{"name="}, "'name' must be a word"},
      {{"name=a/b"}, "'name' must be a word without slashes"},
      {{"name=a b"}, "'name' must be a word"},
      {{"model.name=resnet"}, "'model.name' must be one of: lenet, linear, mlp"},
      {{"data.kind=mnist"}, "'data.kind' must be one of: digits, idx"},
      {{"data.limit_train=-1"}, "'data.limit_train' must be 0 or more"},
      {{"train.epochs=0"}, "'train.epochs' must be 1 or more"},
      {{"train.steps=-1"}, "'train.steps' must be 0 or more"},
      {{"train.batch=0"}, "'train.batch' must be between 1 and"},
      {{"train.batch=1048577"}, "'train.batch' must be between 1 and 1048576"},
      {{"train.logical_shards=-1"}, "'train.logical_shards' must be between 0 and 65536"},
      {{"train.logical_shards=65537"}, "'train.logical_shards' must be between 0 and 65536"},
      {{"train.shard_threads=-1"}, "'train.shard_threads' must be between 0 and 1024"},
      {{"train.checkpoint_steps=-5"}, "'train.checkpoint_steps' must be 0 or more"},
      {{"train.optimizer.kind=adam"}, "'train.optimizer.kind' must be momentum or sgd"},
      {{"train.optimizer.lr=0"}, "'train.optimizer.lr' must be above 0"},
      {{"train.optimizer.lr=nan"}, "'train.optimizer.lr' must be above 0"},
      {{"train.optimizer.lr=inf"}, "'train.optimizer.lr' must be above 0"},
      {{"train.optimizer.momentum=1"}, "'train.optimizer.momentum' must be at least 0 and below 1"},
      {{"train.optimizer.weight_decay=-1e-9"}, "'train.optimizer.weight_decay' must be 0 or more"},
      {{"train.optimizer.schedule=step"}, "'train.optimizer.schedule' must be constant or cosine"},
      {{"train.optimizer.warmup=1"}, "'train.optimizer.warmup' must be at least 0 and below 1"},
      {{"parallel.workers=0"}, "'parallel.workers' must be between 1 and 65536"},
      {{"parallel.codec=topk"}, "'parallel.codec' must be none"},
      {{"parallel.transport=pigeon"}, "'parallel.transport' must be auto, shm, tcp, mpi or inproc"},
      {{"parallel.bucket_bytes=0"}, "'parallel.bucket_bytes' must be 1 or more"},
      {{"parallel.deadline_ms=99"}, "'parallel.deadline_ms' must be 100 or more"},
      {{"train.logical_shards=2", "parallel.workers=3"},
       "3 workers cannot share 2 logical shards: use --workers 2 or set train.logical_shards=3"},
      {{"train.logical_shards=8", "train.batch=7"},
       "a batch of 7 samples cannot be cut into 8 logical shards: set train.batch to 8 or more"},
      {{"parallel.workers=9", "train.batch=8"}, "cannot be cut into 9 logical shards"},
  };
  for (const Case& c : cases) {
    Job job;
    for (const std::string& assignment : c.set) ASSERT_TRUE(set_job_key(job, assignment).ok()) << assignment;
    expect_says(check_job(job), c.said);
  }
}

TEST(CheckJob, NamesThatDoNotExistAreRefusedWithThoseThatDo) {
  Job job;
  job.parallel.agreement = "ssp";
  EXPECT_EQ(check_job(job).code(), Code::kInvalid);
  EXPECT_NE(check_job(job).message().find("'ssp'; expected one of: bsp"), std::string::npos)
      << check_job(job).message();
  job = Job();
  job.parallel.collective = "star";
  EXPECT_EQ(check_job(job).code(), Code::kInvalid);
  EXPECT_NE(check_job(job).message().find("fixed-tree"), std::string::npos) << check_job(job).message();
}

TEST(JobKeys, AreUniqueAndDescribed) {
  std::set<std::string_view> seen;
  for (const JobKey& key : job_keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_GE(key.doc.size(), 10U) << key.path;
  }
}

TEST(ToToml, ComesBackAsTheSameJobWhateverTheValues) {
  Job job;
  for (const JobKey& key : job_keys()) change(job, key);
  const std::string text = to_toml(job);
  const Result<Job> back = parse_job(text, "written.toml");
  ASSERT_TRUE(back.ok()) << back.status().to_string() << "\n" << text;
  EXPECT_EQ(to_toml(*back), text);
  EXPECT_EQ(back->train.optimizer.lr, 1.0 / 3.0);
  EXPECT_EQ(back->model.name, job.model.name);
  EXPECT_EQ(back->data.seed, job.data.seed);
  EXPECT_EQ(back->train.optimizer.nesterov, job.train.optimizer.nesterov);
}

TEST(ToToml, NumbersOfAnySizeComeBackExactly) {
  for (const double value : {0.1, 1.0, 1e-5, 1e-300, 1.7976931348623157e308, 123456789.0, 1e16, 5e-324}) {
    Job job;
    job.train.optimizer.weight_decay = value;
    const Result<Job> back = parse_job(to_toml(job), "t");
    ASSERT_TRUE(back.ok()) << value << ": " << back.status().to_string();
    EXPECT_EQ(back->train.optimizer.weight_decay, value);
  }
}

TEST(DiffJobs, NamesTheKeysThatDecideTheResultAndDiffer) {
  EXPECT_EQ(diff_jobs(Job(), Job()), "");
  Job other;
  other.train.batch = 64;
  other.model.name = "mlp";
  other.parallel.workers = 5;
  other.name = "renamed";
  EXPECT_EQ(diff_jobs(Job(), other), "  model.name: \"lenet\" -> \"mlp\"\n  train.batch: 128 -> 64\n");
}

TEST(JobSha256, ChangesWithExactlyTheKeysThatDecideTheResult) {
  const std::string base = job_sha256(Job());
  EXPECT_EQ(base.size(), 64U);
  for (const JobKey& key : job_keys()) {
    Job job;
    change(job, key);
    EXPECT_EQ(job_sha256(job) != base, key.decides_result) << key.path;
    EXPECT_EQ(diff_jobs(Job(), job) != "", key.decides_result) << key.path;
  }
}

TEST(JobSha256, IgnoresHowTheJobIsRun) {
  std::set<std::string_view> free;
  for (const JobKey& key : job_keys())
    if (!key.decides_result) free.insert(key.path);
  EXPECT_EQ(free, (std::set<std::string_view>{"name", "train.checkpoint_steps", "parallel.workers",
                                              "parallel.transport", "parallel.deadline_ms"}));
}

}  // namespace
}  // namespace trireme::train
