// Every rule with the whole trainer in virtual time: workers that see one class each must come to one model
// that knows all, and the control must not.
#include "trireme/agree/agree.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

constexpr int kWorkers = 4;

job::Job by_class_job(const std::string& rule) {
  job::Job job = testing::by_class_job(rule, kWorkers);
  job.parallel.agreement_options.set(
      "period", rule == "averaging" || rule == "conservative" || rule == "easgd" ? 2 : 1);
  return job;
}

record::Summary run(const job::Job& job, std::vector<double> speeds = {}) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = 1;
  options.latency_jitter = 4;  // it is not always the same one who is late
  const auto data = testing::tiny_pictures(400, 80);
  if (!speeds.empty()) {
    options.cluster.topology =
        cost::Topology::single_switch(static_cast<int>(speeds.size()), options.machine, options.link);
    for (std::size_t i = 0; i < speeds.size(); ++i) options.cluster.topology.machines[i].speed = speeds[i];
  }
  const start::SimulateReport report = start::simulate_training(options, data);
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    EXPECT_TRUE(report.ranks[r].ok()) << "rank " << r << ": " << report.ranks[r].status().to_string();
  return report.ranks[0].ok() ? *report.ranks[0] : record::Summary{};
}

class Rules : public ::testing::TestWithParam<std::string> {};

TEST_P(Rules, AgreeOnAModelThatKnowsWhatEachWorkerHasSeen) {
  const record::Summary s = run(by_class_job(GetParam()));
  EXPECT_TRUE(s.finished);
  EXPECT_EQ(s.parameters_sha256.size(), 64U);
  if (GetParam() == "none")
    EXPECT_LT(s.test_accuracy, 0.65);
  else
    EXPECT_GE(s.test_accuracy, 0.9) << to_json(s).dump(1);
}

TEST_P(Rules, GiveTheSameBitsForTheSameSeedInVirtualTime) {
  job::Job job = by_class_job(GetParam());
  job.train.steps = 12;
  EXPECT_EQ(run(job).parameters_sha256, run(job).parameters_sha256);
}

TEST_P(Rules, RunOnPhantomMachinesWhereOnlySizesTravel) {
  start::SimulateOptions options;
  options.job = by_class_job(GetParam());
  options.job.data.partition = "random";
  options.job.train.steps = 6;
  options.machine.cores = 1;
  options.phantom = true;
  options.time_limit = 60 * kSecond;
  const start::SimulateReport report = start::simulate_training(options, testing::tiny_pictures(400, 80));
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  EXPECT_TRUE(report.ranks[0].ok() && report.ranks[0]->finished);
}

std::vector<std::string> all_rules() {
  std::vector<std::string> names;
  for (const agree::AgreementRow& row : agree::agreement_table()) names.emplace_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Rules, ::testing::ValuesIn(all_rules()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace trireme::train
