// metrics.jsonl: one line per step and evaluation; and the same numbers as TensorBoard events. A resumed run
// drops the lines beyond its checkpoint first.
//
// Lines reach the files by themselves within kMetricsDelay, so that readers can follow a run; flush() makes
// them survive a crash. Belongs to the loop of one Runtime.
#pragma once

#include <memory>
#include <string>

#include "trireme/engine/evaluator.h"
#include "trireme/io/events.h"

namespace trireme::record {

inline constexpr TimeNs kMetricsDelay = kSecond;

class MetricsLog {
 public:
  struct Step {
    std::int64_t step = 0, epoch = 0, samples = 0;
    double loss = 0, accuracy = 0, lr = 0;
    double grad_norm = 0;  // 0: not known
    bool skipped = false;
    TimeNs since_start = 0;
  };
  struct Evaluation {
    std::int64_t step = 0, epoch = 0;
    engine::Part part = engine::Part::kTest;
    double loss = 0, accuracy = 0;
  };

  // Empty `run_dir`: nothing is written. `events`: TensorBoard files too.
  MetricsLog(runtime::Runtime& rt, std::string run_dir, bool events);
  ~MetricsLog();

  // Keeps lines of steps up to `last_step`. `evaluates_again`: without the evaluations of `last_step`.
  runtime::Task<Status> open(std::int64_t last_step, bool evaluates_again = false);
  void add_step(const Step& row);
  void add_evaluation(const Evaluation& row);
  // From this step on gradients travel otherwise.
  void add_codec(std::int64_t step, const std::string& codec, const std::string& why);
  // Writes and syncs. After a failure nothing is lost: the next flush writes it again. One at a time.
  runtime::Task<Status> flush();

 private:
  struct Files;
  void add_line(const std::string& line);
  std::shared_ptr<Files> files_;  // null: nothing is written
};

}  // namespace trireme::record
