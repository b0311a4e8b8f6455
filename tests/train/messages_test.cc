// The virtual cluster runs the real code: it sends the same messages.
#include <gtest/gtest.h>

#include <map>

#include "tests/train/small_jobs.h"

namespace trireme::train {
namespace {

using Sends = std::vector<net::SendRecord>;

std::vector<Sends> real_sends(const job::Job& job, std::shared_ptr<const data::Dataset> data) {
  std::vector<Sends> logs;
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  options.send_logs = &logs;
  for (const auto& rank : start::train_in_process(options))
    EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return logs;
}

std::vector<Sends> virtual_sends(const job::Job& job, std::shared_ptr<const data::Dataset> data) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = std::max(1, runtime::num_cores() / 4);
  options.record_sends = true;
  start::SimulateReport report = start::simulate_training(options, std::move(data));
  for (const auto& rank : report.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return report.sends;
}

// What one operation sends, in order; operations that overlap may interleave differently.
std::map<std::pair<std::uint32_t, std::uint16_t>, Sends> by_operation(const Sends& sends) {
  std::map<std::pair<std::uint32_t, std::uint16_t>, Sends> out;
  for (const auto& s : sends) out[{s.id.step, s.id.slot}].push_back(s);
  return out;
}

TEST(Messages, AVirtualRunOfFourRanksSendsTheSequenceOfTheRealRun) {
  const auto data = testing::few_digits(60, 20);
  for (const char* collective : {"fixed-tree", "ring"}) {
    job::Job job = testing::small_job("lenet", 3, 4);
    job.parallel.collective = collective;
    const auto real = real_sends(job, data), simulated = virtual_sends(job, data);
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_FALSE(real[r].empty());
      EXPECT_EQ(by_operation(real[r]), by_operation(simulated[r])) << collective << ", rank " << r;
    }
  }
}

TEST(Messages, WithSeveralBucketsEveryOperationSendsTheSameSequence) {
  const auto data = testing::few_digits(60, 20);
  job::Job job = testing::small_job("lenet", 3, 4);
  job.parallel.bucket_bytes = 1 << 14;
  const auto real = real_sends(job, data), simulated = virtual_sends(job, data);
  for (std::size_t r = 0; r < 4; ++r)
    EXPECT_EQ(by_operation(real[r]), by_operation(simulated[r])) << "rank " << r;
}

}  // namespace
}  // namespace trireme::train
