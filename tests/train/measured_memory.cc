#include "tests/train/measured_memory.h"

#include <gtest/gtest.h>

#include "trireme/start/in_process.h"
#include "trireme/tensor/host_memory.h"

namespace trireme::train::testing {

std::int64_t most_bytes_of(const std::function<void()>& body) {
  const std::int64_t before = host_memory().live_bytes;
  restart_host_peak();
  body();
  return host_memory().peak_bytes - before;
}

std::int64_t measured_bytes(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                            const std::string& run_dir) {
  start::InProcessOptions options;
  options.job = job;
  options.data = std::move(data);
  options.run_dir = run_dir;
  return most_bytes_of([&] {
    for (const auto& rank : start::train_in_process(options))
      EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  });
}

}  // namespace trireme::train::testing
