// Links on which a message takes longer than the deadline of a silent rank: a slow link is no fault. Whoever
// waits for it ends with the bits of a fast one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/small_jobs.h"
#include "trireme/job/job_options.h"
#include "trireme/job/roles.h"

namespace trireme::train::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kMegabit = 125e3;
constexpr TimeNs kDeadline = 2 * kSecond;  // net::MembershipOptions

// A layer has 256 KiB of gradients: 2.1 s on a link of a megabit, more where others share it.
job::Job layers_of_256(const std::string& mesh, std::int64_t zero) {
  job::Job job = small_job("mlp", 2, 1);
  const Json wide{{"kind", "dense"}, {"out", 256}, {"activation", "relu"}};
  job.model.layers = Json::array({wide, wide, wide, {{"kind", "classifier"}}});
  job.train.batch = 16;
  job.train.logical_shards = 4;
  job.train.logical_tiles = 2;
  job.train.shard_threads = 1;
  job.options.set(job::kSegments.name, std::int64_t{4});
  job.options.set(job::kZero.name, zero);
  job.parallel.mesh = mesh;
  job::take_workers_of_mesh(job, false);
  return job;
}

start::SimulateReport run_on_link(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                                  double bytes_per_second, std::vector<runtime::FaultSpec> faults = {}) {
  start::SimulateOptions options;
  options.job = job;
  options.link.bytes_per_second = bytes_per_second;
  options.faults = std::move(faults);
  return start::simulate_training(options, std::move(data));
}

TEST(SlowLink, MessagesLongerThanTheDeadlineGiveTheBitsOfAFastLink) {
  const auto data = few_digits(64, 16);
  for (const char* mesh : {"data=2,stage=2,model=2", "data=2,stage=2", "data=4"})
    for (const std::int64_t zero : {0, 3}) {
      const job::Job job = layers_of_256(mesh, zero);
      const std::string expected = hash_virtual(job, data);
      ASSERT_EQ(expected.size(), 64U);
      const start::SimulateReport slow = run_on_link(job, data, kMegabit);
      for (const auto& rank : slow.ranks) {
        ASSERT_TRUE(rank.ok()) << mesh << ", level " << zero << ": " << rank.status().to_string();
        EXPECT_EQ(rank->parameters_sha256, expected) << mesh << ", level " << zero;
      }
      EXPECT_GT(slow.world.end_time, 4 * kDeadline) << mesh << ": the link is not slow enough to tell";
    }
}

// Whoever is really gone is named as ever, while long messages are on their way between the others.
TEST(SlowLink, ARankThatDiesOrFallsSilentIsNamedInTime) {
  const auto data = few_digits(64, 16);
  for (const auto kind : {runtime::FaultSpec::Kind::kKill, runtime::FaultSpec::Kind::kPause}) {
    runtime::FaultSpec fault;
    fault.kind = kind;
    fault.runtime = 6;
    fault.at = 7 * kSecond;
    const start::SimulateReport broken =
        run_on_link(layers_of_256("data=2,stage=2,model=2", 0), data, kMegabit, {fault});
    const bool killed = kind == runtime::FaultSpec::Kind::kKill;
    for (std::size_t r = 0; r < broken.ranks.size(); ++r) {
      if (r == 6) continue;
      ASSERT_FALSE(broken.ranks[r].ok()) << r;
      EXPECT_THAT(std::string(broken.ranks[r].status().message()),
                  HasSubstr("rank 6 (data 1, stage 1, model 0)"));
      EXPECT_LE(broken.ended_at[r], fault.at + (killed ? kSecond : kDeadline + kSecond)) << r;
    }
  }
}

}  // namespace
}  // namespace trireme::train::testing
