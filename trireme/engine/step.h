// What a step of a replica is told and what it tells.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::engine {

// What one step needs to know. Everything follows from the job and what is done so far.
struct StepInput {
  std::int64_t step = 0;         // global, from 0
  std::int64_t first_batch = 0;  // of this step, numbered over the run
  std::int64_t num_batches = 1;  // more than one where the batch has grown
  std::int64_t num_samples = 0;  // of them all
  std::int64_t applied = 0;      // updates so far, skipped steps left out
  float learning_rate = 0;
  float velocity_factor = 1, momentum_kept = 1;
  bool stop_wanted = false;    // this rank was asked to stop after the step
  bool save_wanted = false;    // rank 0 alone: a checkpoint is due by time
  std::int64_t end_batch = 0;  // of the run; pipelines that never drain begin later batches too
};

// What all ranks learned of a step together.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0, correct = 0;
  bool stop = false, save = false;
};

struct StepOutput {
  double loss = 0;       // mean over the step's samples
  double correct = 0;    // samples of the step
  double grad_norm = 0;  // before clipping; 0 where nothing is clipped
  bool applied = true;   // false: skipped, since something was not a number
  bool stop = false;     // some rank was asked to stop
  bool save = false;     // rank 0 wants a checkpoint
  TimeNs compute_ns = 0, exposed_ns = 0, data_ns = 0;
  TimeNs axis_ns = 0;  // of exposed_ns: exchanges within the graphs
  // Where steps overlap, loss, correct, stop and save are those of earlier steps, told here in order.
  bool overlaps = false;
  std::vector<StepResult> earlier = {};
  // Updates between the weights that micro-batches read and those that they changed -> how many of them.
  std::map<std::int64_t, std::int64_t> ages = {};
  TimeNs busy_ns = 0;           // stages: phases of micro-batches, and updates
  std::int64_t kept_bytes = 0;  // stages: by micro-batches in flight
};

struct EvalOutput {
  double loss = 0, accuracy = 0;
};

// Tracks of a trace: the shards of a rank first, then the buckets.
inline constexpr int kFirstBucketTrack = 1000;

// When and on which track things of a step happened; for trace.json.
struct StepSpan {
  std::string name;
  const char* category = "";  // "compute", "exchange", "update", "data"
  int track = 0;
  TimeNs begin = 0, end = 0;
};

// Where spans go while steps are traced; nowhere otherwise.
struct StepTrace {
  runtime::Runtime* rt = nullptr;
  std::vector<StepSpan>* spans = nullptr;
  void note(std::string name, const char* category, int track, TimeNs begin) const {
    if (spans != nullptr) spans->push_back({std::move(name), category, track, begin, rt->now()});
  }
};

}  // namespace trireme::engine
