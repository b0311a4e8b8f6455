#include "tests/train/measured_memory.h"

#include <gtest/gtest.h>

#include "bench/counted_memory.h"
#include "trireme/start/in_process.h"

namespace trireme::train::testing {

std::int64_t measured_bytes(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                            const std::string& run_dir) {
  const std::int64_t before = live_bytes;
  peak_bytes = before;
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  options.run_dir = run_dir;
  for (const auto& rank : start::train_in_process(options))
    EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return peak_bytes - before;
}

}  // namespace trireme::train::testing
