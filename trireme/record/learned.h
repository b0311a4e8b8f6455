// Whether a run has learned, judged by its own numbers when it ends: a run that ends at the accuracy of
// guessing, or with a loss that is no better than its first, says so instead of looking like success. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/record/loss_trend.h"
#include "trireme/record/summary.h"

namespace trireme::job {
struct Job;
}

namespace trireme::record {

// What the verdict looks at.
struct RunFacts {
  model::ModelTask task = model::ModelTask::kClassify;
  LossTrend losses;  // of steps that were not skipped
  std::int64_t steps = 0, skipped = 0;
  bool starts_trained = false;  // model.init_from
  // Test samples; none: accuracies tell nothing.
  std::int64_t num_test = 0;
  int num_classes = 0;
  double test_accuracy = 0, train_accuracy = 0;
  double chance = 0;  // accuracy of one answer for all test samples, the most frequent class
  // Where a cause may lie.
  std::string codec = "none", partition = "random", precision = "f32";
  int workers = 1;
  bool lock_step = true;      // every step is of all workers' samples, whoever has them
  bool codec_loses = false;   // the codec leaves something out, and has encoded
  double mean_staleness = 0;  // of updates used, in clocks
  std::string staleness_key;  // of the rule: "parallel.staleness"; empty: it has none
  double stale_momentum = 0;  // of an optimiser where old updates are applied
  double learning_rate = 0;
};

struct Diagnosis {
  std::optional<bool> learned;  // empty: it cannot be told
  std::string reason;           // a clause; empty where it has learned
  std::string key;              // the likeliest one to change; empty where it has learned
  std::string advice;           // what to do with it
};

// Runs of fewer steps are too short for a diagnosis.
inline constexpr std::int64_t kLeastSteps = 10;
Diagnosis judge(const RunFacts& facts);

// Share of the most frequent class among the test samples; 0: there are none, or they have no classes.
double chance_of(const data::Dataset& data);

// Fills `learned`, `learned_reason`, `learned_key`, `learned_advice` and `notes` of a summary whose other
// parts are known. `real`: the numbers are a training's, not those of a simulation without arithmetic.
void judge_summary(const job::Job& job, const data::Dataset& data, const LossTrend& losses, bool real,
                   Summary& s);

// What of a finished run people should know although nothing failed: skipped steps, steps that were not
// encoded, a codec with one worker, updates that were old. Sentences.
std::vector<std::string> notes_of(const job::Job& job, const Summary& s);

}  // namespace trireme::record
