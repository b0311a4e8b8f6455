// Every rule whose workers go at their own pace, with replicas that are several ranks each: they agree place
// by place, take the same units, meet, save and go on as replicas of one rank do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/mesh/mesh_jobs.h"
#include "tests/train/small_jobs.h"
#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"
#include "trireme/agree/agree.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

using testing::expect_close;
using ::testing::HasSubstr;
using testing::on_mesh;
using testing::tiny_pictures;
using testing::VirtualRuns;

job::Job rule_job(const std::string& rule, const std::string& mesh) {
  job::Job job = testing::tiny_job();
  job.train.logical_shards = 0;
  job.train.shard_threads = 1;
  job.train.steps = 24;
  job.train.eval_steps = 8;
  job.train.checkpoint_steps = 8;
  job.parallel.agreement = rule;
  job.parallel.agreement_options.set("period", 3);
  return on_mesh(std::move(job), mesh);
}

start::SimulateReport simulate(const job::Job& job, std::vector<runtime::FaultSpec> faults = {}) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = 1;
  options.latency_jitter = 4;
  options.faults = std::move(faults);
  return start::simulate_training(options, tiny_pictures(400, 80));
}

record::Summary summary_of(const start::SimulateReport& report) {
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    EXPECT_TRUE(report.ranks[r].ok()) << "rank " << r << ": " << report.ranks[r].status().to_string();
  return report.ranks[0].ok() ? *report.ranks[0] : record::Summary{};
}

// What belongs to replicas is of their ranks, and has other names where these are more.
io::NamedTensors without_replicas(io::NamedTensors tensors) {
  std::erase_if(tensors, [](const auto& named) {
    return named.first.starts_with("replica/") || named.first.starts_with("rule/");
  });
  return tensors;
}

class RulesOnMeshes : public ::testing::TestWithParam<std::string> {};

TEST_P(RulesOnMeshes, AgreeOnAModelThatKnowsWhatEachReplicaHasSeen) {
  job::Job job = testing::by_class_job(GetParam(), 4);
  const bool averages = GetParam() == "averaging" || GetParam() == "conservative" || GetParam() == "easgd";
  job.parallel.agreement_options.set("period", averages ? 2 : 1);
  const record::Summary s = summary_of(simulate(on_mesh(std::move(job), "data=4,model=2")));
  EXPECT_TRUE(s.finished);
  EXPECT_EQ(s.mesh, "data=4,model=2");
  EXPECT_EQ(s.workers, 8);
  EXPECT_EQ(s.per_worker.size(), 4U) << "replicas";
  if (GetParam() == "none")
    EXPECT_LT(s.test_accuracy, 0.65);
  else
    EXPECT_GE(s.test_accuracy, 0.9) << to_json(s).dump(1);
}

TEST_P(RulesOnMeshes, GiveTheSameBitsForTheSameSeedInVirtualTime) {
  const job::Job job = rule_job(GetParam(), "data=2,model=3");
  const record::Summary s = summary_of(simulate(job));
  EXPECT_EQ(s.parameters_sha256.size(), 64U);
  EXPECT_EQ(s.steps, 24);
  EXPECT_EQ(summary_of(simulate(job)).parameters_sha256, s.parameters_sha256);
}

TEST_P(RulesOnMeshes, RunOnPhantomMachinesWhereOnlySizesTravel) {
  start::SimulateOptions options;
  options.job = rule_job(GetParam(), "data=2,model=2");
  options.machine.cores = 1;
  options.phantom = true;
  options.time_limit = 60 * kSecond;
  const record::Summary s = summary_of(start::simulate_training(options, tiny_pictures(120, 40)));
  EXPECT_TRUE(s.finished);
}

TEST_P(RulesOnMeshes, StopAndGoOnFromACheckpointOfTheWholeModel) {
  const auto data = tiny_pictures(120, 40);
  const job::Job job = rule_job(GetParam(), "data=2,model=2");
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 10;
  EXPECT_FALSE(runs.train(job, data, stop).summary().finished);
  const record::Summary s = runs.train(job, data).summary();
  EXPECT_TRUE(s.finished);
  EXPECT_EQ(s.steps, 24);
  // The uncut model has the same tensors.
  VirtualRuns whole;
  whole.train(rule_job(GetParam(), "data=2"), data);
  const io::NamedTensors cut = without_replicas(runs.checkpoint().tensors),
                         expected = without_replicas(whole.checkpoint().tensors);
  ASSERT_EQ(cut.size(), expected.size());
  for (std::size_t i = 0; i < cut.size(); ++i) {
    EXPECT_EQ(cut[i].first, expected[i].first);
    EXPECT_EQ(cut[i].second.type(), expected[i].second.type());
  }
}

std::vector<std::string> own_pace_rules() {
  std::vector<std::string> names;
  for (const agree::AgreementRow& row : agree::agreement_table())
    if (row.pace != agree::Pace::kStep) names.emplace_back(row.name);
  return names;
}

std::string letters_of(std::string name) {
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, RulesOnMeshes, ::testing::ValuesIn(own_pace_rules()),
                         [](const auto& info) { return letters_of(info.param); });

// Rules whose result does not depend on who is fast.
class RulesInStepOnMeshes : public ::testing::TestWithParam<const char*> {};

TEST_P(RulesInStepOnMeshes, TrainToWhatReplicasOfOneRankTrainTo) {
  const auto data = tiny_pictures(120, 40);
  const auto trained = [&](const char* mesh) {
    VirtualRuns runs;
    runs.train(rule_job(GetParam(), mesh), data);
    return without_replicas(runs.checkpoint().tensors);
  };
  const io::NamedTensors expected = trained("data=2");
  for (const char* mesh : {"data=2,model=2", "data=2,model=3"}) {
    SCOPED_TRACE(mesh);
    expect_close(trained(mesh), expected, 5e-4);
  }
}

TEST_P(RulesInStepOnMeshes, GiveTheSameBitsOverThreadsAndInVirtualTime) {
  const auto data = tiny_pictures(120, 40);
  const job::Job job = rule_job(GetParam(), "data=2,model=2");
  const std::string expected = testing::hash_virtual(job, data);
  EXPECT_EQ(expected.size(), 64U);
  EXPECT_EQ(testing::hash_in_process(job, data), expected);
}

TEST_P(RulesInStepOnMeshes, StoppedAndStartedAgainEndInTheBitsOfAnUndisturbedRun) {
  const auto data = tiny_pictures(120, 40);
  const job::Job job = rule_job(GetParam(), "data=2,model=2");
  VirtualRuns whole;
  const record::Summary expected = whole.train(job, data).summary();
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 10;
  EXPECT_FALSE(runs.train(job, data, stop).summary().finished);
  EXPECT_EQ(runs.train(job, data).summary().parameters_sha256, expected.parameters_sha256);
}

// A replica that shares nobody's work is deterministic under every rule.
TEST_P(RulesInStepOnMeshes, GiveTheSameBitsWhereAWorkerRunsSeveralTiles) {
  const auto data = tiny_pictures(120, 40);
  const auto hash = [&](const char* mesh) {
    job::Job job = rule_job(GetParam(), mesh);
    job.train.logical_tiles = 4;
    return testing::hash_virtual(job, data);
  };
  const std::string expected = hash("data=2,model=4");
  EXPECT_EQ(expected.size(), 64U);
  for (const char* mesh : {"data=2,model=1", "data=2,model=3"}) EXPECT_EQ(hash(mesh), expected) << mesh;
}

INSTANTIATE_TEST_SUITE_P(Some, RulesInStepOnMeshes,
                         ::testing::Values("averaging", "easgd", "conservative", "none", "bsp-server"),
                         [](const auto& info) { return letters_of(info.param); });

TEST(ReplicasAtServers, OneReplicaGivesTheBitsOfOneWorkerWithTheSameTiles) {
  const auto data = tiny_pictures(120, 40);
  for (const char* rule : {"downpour", "ssp", "staleness-aware", "easgd-async", "bsp-server"})
    for (const int servers : {-1, 2}) {
      const auto hash = [&](const char* mesh) {
        job::Job job = rule_job(rule, mesh);
        job.train.logical_tiles = 2;
        job.parallel.servers = servers;
        VirtualRuns runs;
        return runs.train(job, data).summary().parameters_sha256;
      };
      const std::string expected = hash("data=1,model=2");
      ASSERT_EQ(expected.size(), 64U) << rule;
      EXPECT_EQ(hash("data=1,model=1"), expected) << rule << " with " << servers << " servers";
    }
}

// Updates of servers work element by element, so it does not matter who keeps what.
TEST(ReplicasAtServers, AResumedRunHasTheStateOfItsServersOnAnyNumberOfThem) {
  const auto data = tiny_pictures(120, 40);
  for (const char* optimizer : {"momentum", "adam"}) {
    job::Job job = rule_job("bsp-server", "data=2,model=2");
    job.train.optimizer.kind = optimizer;
    if (std::string(optimizer) == "adam") job.train.optimizer.lr = 0.01;
    job.parallel.servers = 2;
    VirtualRuns whole;
    const record::Summary expected = whole.train(job, data).summary();
    VirtualRuns runs;
    testing::RunOptions stop;
    stop.stop_at = 10;
    EXPECT_FALSE(runs.train(job, data, stop).summary().finished);
    job.parallel.servers = 3;
    const record::Summary s = runs.train(job, data).summary();
    EXPECT_TRUE(s.finished);
    EXPECT_EQ(s.parameters_sha256, expected.parameters_sha256) << optimizer;
    expect_close(runs.checkpoint().tensors, whole.checkpoint().tensors, 0);
  }
}

// Queries, keys and values of a layer are blocks of one matrix, of which a rank has a part each.
TEST(ReplicasAtServers, BlocksOfAMatrixComeBackFromACheckpoint) {
  job::Job job = rule_job("bsp-server", "data=2,model=2");
  job.model.layers = Json::array();
  job.model.name = "char-gpt";
  job.model.options = Json{{"width", 8}, {"layers", 1}, {"heads", 2}};
  job.data.kind = "text";
  job.data.path = "tiny.txt";
  job.train.optimizer.kind = "adam";
  job.train.optimizer.lr = 0.01;
  const auto data = testing::tiny_text(40, 9);
  VirtualRuns whole;
  const record::Summary expected = whole.train(job, data).summary();
  const std::string plan = whole.read("run/plan.json");
  EXPECT_THAT(plan, HasSubstr(",3)")) << "a matrix is cut in blocks";
  VirtualRuns runs;
  testing::RunOptions stop;
  stop.stop_at = 10;
  EXPECT_FALSE(runs.train(job, data, stop).summary().finished);
  job.parallel.servers = 2;
  EXPECT_EQ(runs.train(job, data).summary().parameters_sha256, expected.parameters_sha256);
  expect_close(runs.checkpoint().tensors, whole.checkpoint().tensors, 0);
}

TEST(ReplicasAtServers, ServersInProcessesOfTheirOwnServeAllPlaces) {
  job::Job job = rule_job("downpour", "data=2,model=2");
  job.parallel.servers = 2;
  VirtualRuns runs;
  const auto outcome = runs.train(job, tiny_pictures(120, 40));
  const record::Summary s = outcome.summary();
  EXPECT_EQ(s.servers, 2);
  EXPECT_EQ(s.samples, 24 * 12);
  EXPECT_EQ(s.per_worker.size(), 2U);
  EXPECT_EQ(s.per_worker[0].samples + s.per_worker[1].samples, s.samples);
  EXPECT_GT(s.rule.value("pushes", 0), 0);
  for (const char* axis : {"data", "model"}) {
    EXPECT_GT(s.bytes_by_axis.at(axis), 0) << axis;
    EXPECT_GT(s.exposed_by_axis.at(axis), 0) << axis;
  }
  EXPECT_GE(s.bytes_by_axis.at("data"), s.bytes_dense_per_step / 2) << "a push of half of the model";
}

// ---- A rank that dies

class OutlivingReplicas : public ::testing::TestWithParam<const char*> {};

TEST_P(OutlivingReplicas, ADeadRankCostsItsReplicaOnly) {
  job::Job job = rule_job(GetParam(), "data=3,model=2");
  job.train.steps = 40;
  const start::SimulateReport whole = simulate(job);
  ASSERT_TRUE(whole.ranks[0].ok()) << whole.ranks[0].status().to_string();
  for (const double share : {0.2, 0.5, 0.9})
    for (const int victim : {2, 3}) {
      SCOPED_TRACE(fmt::format("rank {} at {}", victim, share));
      runtime::FaultSpec fault;
      fault.runtime = victim;
      fault.at = whole.ended_at[0] - from_seconds((1 - share) * whole.ranks[0]->wall_seconds);
      const start::SimulateReport report = simulate(job, {fault});
      ASSERT_TRUE(report.ranks[0].ok()) << report.ranks[0].status().to_string();
      const record::Summary& s = *report.ranks[0];
      EXPECT_TRUE(s.finished);
      EXPECT_EQ(s.lost_workers, std::vector<int>{1}) << "the replica";
      EXPECT_GT(s.test_accuracy, 0.5);
      for (const std::size_t rank : {1U, 4U, 5U})
        EXPECT_TRUE(report.ranks[rank].ok()) << rank << ": " << report.ranks[rank].status().to_string();
      const Status& other = report.ranks[victim == 2 ? 3U : 2U].status();
      ASSERT_FALSE(other.ok());
      EXPECT_THAT(other.message(), HasSubstr(fmt::format("rank {} (data 1, model {})", victim, victim - 2)));
    }
}

INSTANTIATE_TEST_SUITE_P(Rules, OutlivingReplicas,
                         ::testing::Values("downpour", "ssp", "bsp-server", "soft", "late", "gossip",
                                           "decentralized", "easgd-async"),
                         [](const auto& info) { return letters_of(info.param); });

TEST(ReplicasOfSeveralRanks, ARankOfTheFirstReplicaEndsTheRun) {
  const job::Job job = rule_job("downpour", "data=2,model=2");
  const start::SimulateReport whole = simulate(job);
  runtime::FaultSpec fault;
  fault.runtime = 1;
  fault.at = whole.ended_at[0] - from_seconds(0.5 * whole.ranks[0]->wall_seconds);
  const start::SimulateReport report = simulate(job, {fault});
  for (const std::size_t rank : {0U, 2U, 3U}) {
    ASSERT_FALSE(report.ranks[rank].ok());
    EXPECT_THAT(report.ranks[rank].status().message(), HasSubstr("rank 1 (data 0, model 1)"));
  }
}

// ---- What travels

TEST(ReplicasAtServers, CodecsEncodeWhatEachPlacePushes) {
  const auto data = tiny_pictures(120, 40);
  for (const char* codec : {"1bit", "topk", "qsgd"}) {
    job::Job job = rule_job("downpour", "data=2,model=2");
    job.parallel.codec = codec;
    for (const char* set : {"parallel.codec_least=1", "parallel.codec_dense_steps=1"})
      ASSERT_TRUE(job::set_job_key(job, set).ok()) << set;
    job.train.steps = 150;
    const record::Summary s = summary_of(simulate(job));
    EXPECT_TRUE(s.finished) << codec;
    EXPECT_GT(s.rule.value("encoded_messages", 0), 0) << codec;
    EXPECT_GE(s.test_accuracy, 0.7) << codec;
  }
}

TEST(RulesOfTiles, HaveCodecsChosenByCost) {
  for (const char* rule : {"averaging", "bsp-server", "ssp-peer"}) {
    SCOPED_TRACE(rule);
    start::SimulateOptions options;
    options.job = rule_job(rule, "data=2,model=2");
    options.job.parallel.codec = "auto";
    options.job.parallel.codec_tolerance = "feedback";
    for (const char* set : {"parallel.codec_least=1", "parallel.codec_dense_steps=1"})
      ASSERT_TRUE(job::set_job_key(options.job, set).ok()) << set;
    options.machine.cores = 1;
    options.link = *cost::parse_link("1mbit,1us,1us");
    const record::Summary s = summary_of(start::simulate_training(options, tiny_pictures(400, 80)));
    EXPECT_TRUE(s.finished);
    EXPECT_NE(s.codec, "none");
  }
}

TEST(ReplicasAtServers, RefuseWhatCannotGoAlong) {
  const auto why = [](const std::vector<std::string>& sets) {
    job::Job job = testing::tiny_job();
    job.train.logical_shards = 0;
    for (const std::string& set : sets) EXPECT_TRUE(job::set_job_key(job, set).ok()) << set;
    job::take_workers_of_mesh(job, false);
    return job::check_job(job).message();
  };
  EXPECT_EQ(why({"parallel.mesh=data=2,model=2", "parallel.agreement=downpour"}), "");
  const std::pair<std::vector<std::string>, const char*> refusals[] = {
      {{"parallel.agreement=downpour", "parallel.local_replicas=2"}, "parallel.local_replicas"},
      {{"parallel.agreement=hogwild", "parallel.locked=true"}, "parallel.locked"},
      {{"parallel.agreement=averaging", "parallel.period=0"}, "parallel.period"},
      {{"parallel.agreement=downpour", "train.logical_shards=4"}, "as there are replicas"},
  };
  for (const auto& [sets, says] : refusals) {
    std::vector<std::string> all{"parallel.mesh=data=2,model=2"};
    all.insert(all.end(), sets.begin(), sets.end());
    EXPECT_THAT(why(all), HasSubstr(says)) << sets.back();
  }
  EXPECT_THAT(why({"parallel.mesh=data=1,model=2", "parallel.agreement=gossip"}),
              HasSubstr("axis data of 2"));
}

}  // namespace
}  // namespace trireme::train
