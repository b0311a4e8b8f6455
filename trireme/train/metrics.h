// metrics.jsonl: one line per step and evaluation. A resumed run drops the lines beyond its checkpoint first.
#pragma once

#include <string>

#include "trireme/runtime/files.h"

namespace trireme::train {

class MetricsLog {
 public:
  MetricsLog(runtime::Runtime& rt, std::string run_dir)
      : rt_(rt), path_(run_dir + "/metrics.jsonl"), active_(!run_dir.empty()) {}

  // Keeps lines of steps up to `last_step`.
  runtime::Task<Status> open(std::int64_t last_step);
  void add_step(std::int64_t step, std::int64_t epoch, double loss, double accuracy, double lr,
                TimeNs since_start);
  void add_evaluation(std::int64_t step, std::int64_t epoch, double loss, double accuracy);
  runtime::Task<Status> flush();

 private:
  runtime::Runtime& rt_;
  std::string path_;
  bool active_;
  std::string pending_;
};

}  // namespace trireme::train
