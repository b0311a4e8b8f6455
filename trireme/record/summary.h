// Summary: what a finished (or stopped) run reports. Written to summary.json with the names that DESIGN's
// users rely on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/engine/replica.h"
#include "trireme/plan/plan.h"
#include "trireme/record/best.h"
#include "trireme/record/pipeline_report.h"

namespace trireme::record {

// One worker's part in a run: sums of this start.
struct WorkerShare {
  int worker = 0;
  std::int64_t steps = 0, samples = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;  // communication with nothing to hide behind, waiting included
  double waiting_seconds = 0;  // of exposed_seconds: for others to arrive
  int waits_for = -1;          // the rank that it waited for longest; -1: nobody
  double data_seconds = 0;     // waiting for samples
  double bytes_sent = 0;
  double peak_bytes = 0;       // the most that its process had in tensors at one time; 0: not known
  double predicted_bytes = 0;  // the same, as estimated before the run; 0: not known
  // Pipelines that never drain: of its micro-batches, updates between the weights they read and those they
  // changed -> how many.
  std::map<std::int64_t, std::int64_t> staleness;
  bool lost = false;
};

struct Summary {
  std::string job, job_sha256;
  int workers = 1, servers = 0;
  std::string agreement, codec, transport, device = "cpu", precision = "f32";
  model::ModelTask task = model::ModelTask::kClassify;
  std::int64_t steps = 0, skipped_steps = 0, samples = 0;
  double epochs = 0;
  double wall_seconds = 0;  // of this start of the run, without set-up
  double samples_per_second = 0;
  double predicted_one_worker_rate = 0;       // samples per second of one such worker alone; 0: not known
  double train_loss = 0, train_accuracy = 0;  // means over the last epoch (or what was run of it)
  bool has_test = true;  // false: there are no test samples, and summary.json has no result of them
  double test_loss = 0, test_accuracy = 0;
  std::optional<engine::EvalOutput> validation;
  // Where the model is cut over workers: the mesh, the style, the tiles, and by axis bytes that a rank sent
  // in a step, without headers, and seconds that it waited for them.
  std::string mesh, style;
  std::int32_t tiles = 1;
  std::int32_t zero = 0;  // what replicas divided among themselves (parallel.zero)
  std::map<std::string, double> bytes_by_axis, exposed_by_axis;
  std::optional<PipelineReport> pipeline;  // where the mesh has a stage axis
  // By worker: the most bytes in tensors at one time, counted and as predicted; empty: not known.
  std::vector<double> peak_bytes, predicted_bytes;
  double bytes_sent_per_step = 0;  // per worker, on the wire
  double bytes_dense_per_step = 0;
  double compute_seconds = 0, exposed_seconds = 0, data_wait_seconds = 0;  // per step, means
  double checkpoint_seconds = 0;  // of this start: how long training stood still for checkpoints
  std::map<std::int64_t, std::int64_t> staleness;  // of updates used: clocks behind -> how many
  double drift = 0;  // mean distance of replicas from their mean, as a share of the length of that mean
  std::vector<WorkerShare> per_worker;  // one or more where there are several
  std::vector<int> lost_workers;
  Json rule = Json::object();  // what the agreement counted: {"outer_steps": 12}
  bool updates_wait = false;   // for all buckets: something is known about all gradients first
  double predicted_step_seconds = 0, measured_step_seconds = 0;
  bool calibrated = false;  // the prediction is made of what was measured of this host
  plan::StepPrediction prediction;
  std::string parameters_sha256;
  bool reached_target = false;
  bool stopped_early = false;          // train.patience
  std::optional<Best> best;            // evaluation whose checkpoint is kept
  std::int64_t codec_dense_steps = 0;  // first steps that the codec does not encode
  // learned.h: empty where it cannot be told. Why it has not, the likeliest key to change, and how.
  std::optional<bool> learned;
  std::string learned_reason, learned_key, learned_advice;
  std::vector<std::string> notes;  // what people should know although nothing failed
  bool finished = false;           // false: stopped on request, to be resumed
  bool ok = false;

  double compute_fraction() const;
  double exposed_comm_fraction() const;
  double data_wait_fraction() const;
  // Against workers that do not communicate: 1 - exposed_comm_fraction().
  double communication_efficiency() const;
  // Samples per second over those of as many workers that are each as fast as one alone. Empty: not known.
  std::optional<double> scaling_efficiency() const;
  // Where one worker's rate comes from: "measured" (it is this one) or "predicted"; empty: not known.
  std::string scaling_efficiency_from() const;
  double mean_staleness() const;
  std::int64_t max_staleness() const;
};

// Workers that take a step together wait for the one that computes longest: of everybody's exposed time as
// much as that one took longer for as many steps is waiting for it. `needed`: a step is complete with so many
// of the workers, the fastest; 0: all. Lost ones are waited for by nobody.
void attribute_waiting(std::vector<WorkerShare>& shares, int needed = 0);

// peak_bytes and predicted_bytes of `shares`, where all of them know theirs.
void take_memory(const std::vector<WorkerShare>& shares, Summary& summary);

Json to_json(const Summary& summary);

}  // namespace trireme::record
