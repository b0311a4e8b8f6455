#include "trireme/engine/replica_check.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"
#include "trireme/start/simulate.h"

namespace trireme::train {
namespace {

start::SimulateReport checked_run(int workers, std::vector<runtime::FaultSpec> faults) {
  start::SimulateOptions options;
  options.job = testing::tiny_job();
  options.job.parallel.workers = workers;
  options.job.parallel.check_steps = 2;
  options.faults = std::move(faults);
  return start::simulate_training(options, testing::tiny_pictures(40, 10));
}

runtime::FaultSpec flipped_bit(int rank, std::uint64_t step) {
  runtime::FaultSpec fault;
  fault.kind = runtime::FaultSpec::Kind::kMiscall;
  fault.runtime = rank;
  fault.site = "weights";
  fault.index = step;
  return fault;
}

TEST(ReplicaCheck, EqualReplicasPass) {
  for (const auto& rank : checked_run(3, {}).ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

TEST(ReplicaCheck, AFlippedBitIsFoundByEverybodyWithRankTensorAndStep) {
  const start::SimulateReport report = checked_run(3, {flipped_bit(2, 4)});
  for (const auto& rank : report.ranks) {
    ASSERT_FALSE(rank.ok());
    const std::string text = rank.status().to_string();
    EXPECT_NE(text.find("after step 4"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 2 has other values in 'classifier1/bias'"), std::string::npos) << text;
    EXPECT_NE(text.find("(1 of "), std::string::npos) << text;
  }
}

// Three whole tensors on so many ranks.
engine::CheckedPieces three_on(int world) {
  parallel::Holdings holdings;
  holdings.mesh = parallel::data_mesh(world);
  for (const char* name : {"a", "b", "c"})
    holdings.tensors.push_back({name, {DType::kF32, {4}}, parallel::Layout::replicate(holdings.mesh)});
  return engine::checked_pieces(holdings);
}

Status compare(const std::vector<std::int64_t>& hashes, std::int64_t step) {
  return engine::compare_replicas(three_on(static_cast<int>(hashes.size() / 3)), hashes, step);
}

TEST(CompareReplicas, TheMajorityIsRightAndRankZeroWhereThereIsNone) {
  EXPECT_TRUE(compare({1, 2, 3, 1, 2, 3, 1, 2, 3}, 5).ok());
  const auto message = [](const std::vector<std::int64_t>& hashes) {
    const Status status = compare(hashes, 5);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    return status.message();
  };
  EXPECT_NE(message({1, 9, 3, 1, 2, 3, 1, 2, 3}).find("rank 0 has other values in 'b'"), std::string::npos);
  EXPECT_NE(message({1, 2, 3, 1, 2, 4}).find("rank 1 has other values in 'c'"), std::string::npos);
  EXPECT_NE(message({1, 2, 3, 8, 2, 4, 9, 2, 4}).find("rank 1 and rank 2 has other values in 'a'"),
            std::string::npos);
  EXPECT_NE(message({1, 2, 3, 8, 2, 4, 1, 2, 3}).find("(2 of 3 tensors differ)"), std::string::npos);
}

TEST(CompareReplicas, OneRankAndNoTensorsAgree) {
  EXPECT_TRUE(compare({1, 2, 3}, 1).ok());
  EXPECT_TRUE(engine::compare_replicas({}, {}, 1).ok());
}

}  // namespace
}  // namespace trireme::train
