// Run folders of small trained models, as `trireme train` leaves them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "trireme/apply/load_model.h"
#include "trireme/job/job.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::train::testing {

// A fresh directory per test, with run folders and other files in it.
class TrainedRuns : public ::testing::Test {
 protected:
  TrainedRuns();
  ~TrainedRuns() override;

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const;

  // Trains in threads and leaves job.toml, plan.json, checkpoints and summary.json in path(name).
  record::Summary train(const std::string& name, const job::Job& job);
  // Runs a task to its end on a Runtime of two threads.
  void run(const std::function<runtime::Task<void>(runtime::Runtime&)>& task);
  Result<apply::LoadedModel> load(apply::ModelSource source);
  apply::LoadedModel load(const std::string& name);  // a failed test when it cannot

  std::string dir_;
};

// Seconds of work each.
job::Job digits_job();      // lenet, 2 workers
job::Job batch_norm_job();  // described by layers
job::Job autoencoder_job();
job::Job text_job(const std::string& text_path);  // two letters that alternate, and others
std::string small_text();

}  // namespace trireme::train::testing
