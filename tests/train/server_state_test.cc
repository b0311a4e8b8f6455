// What parameter servers keep beside the model goes through checkpoints, whatever the number of servers.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/train/tiny_jobs.h"
#include "tests/train/virtual_runs.h"

namespace trireme::train {
namespace {

using testing::RunOptions;
using testing::tiny_pictures;
using testing::VirtualRuns;

struct Servers {
  int count = 1;
  bool colocated = false;
};
constexpr Servers kServers[] = {{1, false}, {2, false}, {1, true}, {2, true}};

job::Job server_job(const std::string& optimizer, Servers servers) {
  job::Job job = testing::tiny_job();
  job.train.optimizer.kind = optimizer;
  job.train.logical_shards = 0;
  job.train.shard_threads = 1;
  job.train.steps = 16;
  job.train.eval_steps = 8;
  job.train.checkpoint_steps = 8;
  job.parallel.workers = 2;
  job.parallel.agreement = "bsp-server";
  job.parallel.servers = servers.count;
  job.options.set("parallel.colocate", servers.colocated ? "yes" : "no");
  return job;
}

// A layer that is cut over two servers.
job::Job wide(job::Job job) {
  job.model.layers[0]["out"] = 4096;
  job.train.steps = 12;
  job.train.eval_steps = job.train.checkpoint_steps = 12;
  return job;
}

record::Summary stop_and_resume(VirtualRuns& runs, const job::Job& first, const job::Job& second,
                                std::int64_t stop_at) {
  const auto data = tiny_pictures(120, 40);
  RunOptions options;
  options.stop_at = stop_at;
  const record::Summary stopped = runs.train(first, data, options).summary();
  EXPECT_FALSE(stopped.finished);
  EXPECT_LT(stopped.steps, first.train.steps);
  return runs.train(second, data).summary();
}

std::string undisturbed(const job::Job& job) {
  VirtualRuns runs;
  const record::Summary s = runs.train(job, tiny_pictures(120, 40)).summary();
  EXPECT_TRUE(s.finished);
  return s.parameters_sha256;
}

class ServerState : public ::testing::TestWithParam<const char*> {};

TEST_P(ServerState, ARunStoppedAndStartedAgainEndsInTheBitsOfAnUndisturbedOne) {
  for (const Servers& servers : kServers) {
    const job::Job job = server_job(GetParam(), servers);
    const std::string expected = undisturbed(job);
    for (const std::int64_t stop_at : {3, 11}) {
      VirtualRuns runs;
      const record::Summary s = stop_and_resume(runs, job, job, stop_at);
      EXPECT_TRUE(s.finished);
      EXPECT_EQ(s.parameters_sha256, expected)
          << servers.count << (servers.colocated ? " colocated" : " apart") << ", stopped at " << stop_at;
    }
  }
}

// momentum: a velocity; adam: two moments and the number of the update; adagrad: sums; lars: whole tensors.
INSTANTIATE_TEST_SUITE_P(Optimisers, ServerState, ::testing::Values("momentum", "adam", "adagrad", "lars"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ServerStateElsewhere, AnotherNumberOfServersGoesOnInTheSameBits) {
  for (const char* optimizer : {"momentum", "adam"})
    for (const auto& [before, after] : {std::pair<Servers, Servers>{{1, false}, {2, false}},
                                        {{2, false}, {1, true}},
                                        {{2, true}, {1, false}}}) {
      const job::Job first = server_job(optimizer, before), second = server_job(optimizer, after);
      VirtualRuns runs;
      const record::Summary s = stop_and_resume(runs, first, second, 5);
      EXPECT_TRUE(s.finished);
      EXPECT_EQ(s.parameters_sha256, undisturbed(first)) << optimizer << ' ' << before.count << after.count;
    }
}

TEST(ServerStateElsewhere, TensorsThatAreCutOverServersAreJoinedAndCutAnew) {
  for (const auto& [before, after] : {std::pair{2, 2}, {2, 1}, {1, 2}}) {
    const job::Job first = wide(server_job("adam", {before, false}));
    const job::Job second = wide(server_job("adam", {after, false}));
    VirtualRuns runs;
    const record::Summary s = stop_and_resume(runs, first, second, 3);
    EXPECT_TRUE(s.finished);
    EXPECT_EQ(s.parameters_sha256, undisturbed(first)) << before << " to " << after;
  }
}

TEST(ServerStateInCheckpoints, HasNamesAndShapesOfTheParametersHoweverManyServersThereAre) {
  std::vector<std::vector<std::pair<std::string, std::string>>> found;
  for (const int servers : {1, 2}) {
    VirtualRuns runs;
    ASSERT_TRUE(
        runs.train(wide(server_job("adam", {servers, false})), tiny_pictures(120, 40)).summary().finished);
    const io::Checkpoint saved = runs.checkpoint();
    auto& list = found.emplace_back();
    int counted = 0;
    for (const auto& [name, tensor] : saved.tensors) {
      list.emplace_back(name, tensor.type().to_string());
      if (!name.starts_with("server/") || !name.ends_with("/step")) continue;
      ++counted;
      EXPECT_EQ(*tensor.data<std::int64_t>(), 12) << name;
    }
    EXPECT_EQ(counted, 4);  // two weights, two biases
    for (const auto& [name, tensor] : saved.tensors) {
      if (name.starts_with("server/")) continue;
      const auto moment = std::find_if(list.begin(), list.end(), [&, &n = name](const auto& entry) {
        return entry.first == "server/" + n + "/moment1";
      });
      ASSERT_NE(moment, list.end()) << name;
      EXPECT_EQ(moment->second, tensor.type().to_string());
    }
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(ServerStateInCheckpoints, RulesWhoseServersOnlyAddHaveNone) {
  job::Job job = server_job("momentum", {1, false});
  job.parallel.agreement = "easgd-async";
  VirtualRuns runs;
  ASSERT_TRUE(runs.train(job, tiny_pictures(120, 40)).summary().finished);
  for (const auto& [name, tensor] : runs.checkpoint().tensors)
    EXPECT_FALSE(name.starts_with("server/")) << name;
}

TEST(ServerStateInCheckpoints, UnderFreeRulesTheVelocitiesOfServersAreSavedAndReadToo) {
  for (const char* rule : {"downpour", "ssp", "soft", "late"}) {
    job::Job job = server_job("momentum", {2, false});
    job.parallel.agreement = rule;
    VirtualRuns runs;
    const record::Summary s = stop_and_resume(runs, job, job, 5);
    EXPECT_TRUE(s.finished) << rule;
    const io::Checkpoint saved = runs.checkpoint();
    EXPECT_TRUE(std::any_of(saved.tensors.begin(), saved.tensors.end(), [](const auto& named) {
      return named.first.starts_with("server/") && named.first.ends_with("/velocity");
    })) << rule;
  }
}

}  // namespace
}  // namespace trireme::train
