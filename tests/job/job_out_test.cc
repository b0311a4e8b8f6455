// Jobs as text: keys, TOML out and back, compared, hashed.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/job/any_job.h"
#include "trireme/job/job.h"
#include "trireme/model/optimizer_options.h"

namespace trireme::job {
namespace {

// Writes a value other than the default, by the key's type.
void change(std::int64_t& v) { v += 12345678901; }
void change(double& v) { v = 1.0 / 3.0; }
void change(std::string& v) { v = "a \"quoted\" \\ text,\n\tit's \x01"; }
void change(bool& v) { v = !v; }
void change(std::optional<double>& v) { v = 1.0 / 3.0; }
void change(std::optional<std::int64_t>& v) { v = 12345678901; }
void change(std::vector<double>& v) { v = {0.25, 1.0 / 3.0}; }
void change(std::vector<std::string>& v) { v = {"it's", "two"}; }
void change(std::optional<std::vector<std::string>>& v) { v = {"it's", "two"}; }
void change(Json& v) {
  if (v.is_object())
    v["width"] = 64;
  else
    v.push_back({{"kind", "dense"}, {"out", 3}});
}
void change_field(Job& job, const OptionField& field) {
  OptionValue value = field.spec->initial();
  std::visit([](auto& v) { change(v); }, value);
  options_of(job, field.family).set(field.spec->name, std::move(value));
}
template <class T>
void change_field(Job& job, T* (*get)(Job&)) {
  change(*get(job));
}
void change(Job& job, const JobKey& key) {
  std::visit([&](auto field) { change_field(job, field); }, key.field);
}

TEST(JobKeys, AreUniqueAndDescribed) {
  std::set<std::string_view> seen;
  for (const JobKey& key : job_keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_GE(key.doc.size(), 4U) << key.path;
    EXPECT_TRUE(key.doc.ends_with('.') || key.doc.ends_with(')')) << key.path;
    EXPECT_FALSE(value_kind(key).empty()) << key.path;
  }
}

TEST(JobKeys, EveryOneHasAFieldOfItsOwn) {
  for (const JobKey& key : job_keys()) {
    Job job;
    change(job, key);
    for (const JobKey& other : job_keys())
      EXPECT_EQ(value_text(job, other) != value_text(Job(), other), other.path == key.path)
          << key.path << " changes " << other.path;
  }
}

TEST(ToToml, ComesBackAsTheSameJobWhateverTheValues) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Job job = any_job(seed);
    const std::string text = to_toml(job);
    const Result<Job> back = parse_job(text, "written.toml");
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.status().to_string() << "\n" << text;
    ASSERT_EQ(to_toml(*back), text) << "seed " << seed;
    for (const JobKey& key : job_keys())
      EXPECT_EQ(value_text(*back, key), value_text(job, key)) << "seed " << seed << ": " << key.path;
    EXPECT_EQ(job_sha256(*back), job_sha256(job));
    EXPECT_EQ(diff_jobs(*back, job), "");
  }
}

TEST(ToToml, TheOrderOfATableDoesNotCount) {
  Job a, b;
  a.model.options = {{"width", 64}, {"dropout", 0.5}};
  b.model.options = {{"dropout", 0.5}, {"width", 64}};
  EXPECT_EQ(to_toml(a), to_toml(b));
  EXPECT_EQ(job_sha256(a), job_sha256(b));
  EXPECT_EQ(diff_jobs(a, b), "");
}

TEST(ToToml, NumbersOfAnySizeComeBackExactly) {
  for (const double value :
       {0.1, 1.0, -1.0, 1e-5, 1e-300, 1.7976931348623157e308, 123456789.0, 1e16, 5e-324}) {
    Job job;
    job.train.optimizer.options.set("weight_decay", value);
    job.train.optimizer.milestones = {value};
    const Result<Job> back = parse_job(to_toml(job), "t");
    ASSERT_TRUE(back.ok()) << value << ": " << back.status().to_string();
    EXPECT_EQ(back->train.optimizer.options.number(model::kWeightDecay), value);
    EXPECT_EQ(back->train.optimizer.milestones, std::vector<double>{value});
  }
}

TEST(ToToml, WritesWhatHasAValueAndLeavesOutWhatIsNotSet) {
  const std::string text = to_toml(Job());
  EXPECT_NE(text.find("\n[train.optimizer]\nkind = \"momentum\"\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nlr = "), std::string::npos) << text;
  Job job;
  job.train.optimizer.lr = 0.5;
  EXPECT_NE(to_toml(job).find("\nlr = 0.5\n"), std::string::npos);
}

TEST(ToToml, AnIntegerForANumberIsWrittenAsANumber) {
  Job one, same;
  one.parallel.agreement_options.set("elasticity", 1);
  same.parallel.agreement_options.set("elasticity", 1.0);
  EXPECT_NE(to_toml(one).find("\nelasticity = 1.0\n"), std::string::npos);
  EXPECT_EQ(job_sha256(one), job_sha256(same));
}

TEST(DiffJobs, NamesTheKeysThatDecideTheResultAndDiffer) {
  EXPECT_EQ(diff_jobs(Job(), Job()), "");
  Job other;
  other.train.batch = 64;
  other.model.name = "mlp";
  other.train.optimizer.lr = 0.5;
  other.train.optimizer.milestones = {0.5};
  other.parallel.workers = 5;
  other.name = "renamed";
  EXPECT_EQ(
      diff_jobs(Job(), other),
      "  model.name: \"lenet\" -> \"mlp\"\n  train.batch: 128 -> 64\n  train.optimizer.lr: (not set) -> "
      "0.5\n  train.optimizer.milestones: [] -> [0.5]\n");
  EXPECT_NE(diff_jobs(other, Job()).find("train.optimizer.lr: 0.5 -> (not set)"), std::string::npos);
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

TEST(JobSha256, DoesNotDependOnWhereKeysWereGiven) {
  Job job;
  ASSERT_TRUE(set_job_key(job, "train.batch=128").ok());
  EXPECT_EQ(job_sha256(job), job_sha256(Job()));
}

TEST(JobSha256, IgnoresHowTheJobIsRun) {
  std::set<std::string_view> free;
  for (const JobKey& key : job_keys())
    if (!key.decides_result) free.insert(key.path);
  EXPECT_EQ(free, (std::set<std::string_view>{"name",
                                              "data.prefetch",
                                              "train.checkpoint_steps",
                                              "train.checkpoint_minutes",
                                              "train.keep_best",
                                              "train.trace_steps",
                                              "train.events",
                                              "train.memory_limit",
                                              "parallel.workers",
                                              "parallel.mesh",
                                              "parallel.micro_batches",
                                              "parallel.pipeline",
                                              "parallel.virtual_stages",
                                              "parallel.servers",
                                              "parallel.colocate",
                                              "parallel.transport",
                                              "parallel.overlap",
                                              "parallel.deadline_ms",
                                              "parallel.check_steps",
                                              "parallel.weights",
                                              "parallel.link",
                                              "parallel.device_collectives",
                                              "parallel.zero"}));
}

}  // namespace
}  // namespace trireme::job
