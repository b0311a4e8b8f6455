// RunAccount: what every loop keeps of its run: how far it has come, sums of the epoch, results of
// evaluations, metrics, checkpoints and the summary. Every rank counts; rank 0 alone shows and writes.
#pragma once

#include "trireme/engine/evaluator.h"
#include "trireme/engine/replica.h"
#include "trireme/engine/state/save_pieces.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/record/metrics.h"
#include "trireme/record/position.h"
#include "trireme/record/summary.h"
#include "trireme/train/distant_state.h"
#include "trireme/train/start.h"

namespace trireme::train {

class RunAccount {
 public:
  // Both outlive it. `chief`: this is rank 0.
  RunAccount(RankContext& context, const StartState& start, bool chief);

  bool writes() const { return chief_ && !c_.run_dir.empty(); }
  record::Position& at() { return at_; }
  const record::Position& at() const { return at_; }
  std::int64_t total_batches() const { return total_batches_; }
  std::int64_t per_epoch() const { return per_epoch_; }

  // The run has `total_batches`; a resumed one goes on where it was. Whoever shows it hears so.
  void resume();
  void set_length(std::int64_t total_batches, std::int64_t per_epoch);
  runtime::Task<Status> open();
  void start_clock();

  // Steps whose loss is a number: `loss` is a sum over the samples.
  void add_samples(std::int64_t samples, double loss, double correct);
  void begin_epoch();  // its sums start anew
  void add_train_time(TimeNs time) { train_ns_ += time; }
  TimeNs train_ns() const { return train_ns_; }
  void count_measured(std::int64_t samples) { measured_samples_ += samples; }
  // Rank 0 alone logs. `batches`: how far whoever shows the run is to see it. row.step: those done with it.
  void log_step(record::MetricsLog::Step row, std::int64_t batches);

  void log_codec(const std::string& codec, const std::string& why);  // of rank 0

  // What an evaluation decides: the target, the best model, patience. The same numbers, so the same
  // decisions, on every rank. True: it is the best one.
  bool take_evaluation(engine::Part part, const engine::EvalOutput& result);
  void keep_result(engine::Part part, const engine::EvalOutput& result);
  // Rank 0 alone shows; nothing where the part has no samples. `logged`: in the metrics too.
  void show_evaluation(engine::Part part, std::int64_t epoch, const engine::EvalOutput& result, bool logged);

  bool save_is_due() const;  // by train.checkpoint_minutes
  TimeNs saved_at() const { return saved_at_; }
  void note_save() { saved_at_ = rt_.now(); }
  // Writes a checkpoint of the position and of what the ranks of `group` hold. Collective.
  runtime::Task<Status> save(comm::Group& group, const engine::HeldState& state, Json cursor);
  // The same on rank 0 alone, of tensors that it has and tensors that it reads from other ranks while it
  // writes them. These stay as they are until it ends. A failed save may be tried again without some.
  runtime::Task<Status> save(const io::NamedTensors& here, std::vector<DistantTensor> distant, Json cursor);
  runtime::Task<Status> finish();  // what is being written

  // The summary as far as all loops fill it alike; `complete` ends it once the loop has added its own.
  record::Summary begin_summary(int workers, int world) const;
  void complete(record::Summary& s) const;
  runtime::Task<Status> write(const record::Summary& s) const;

 private:
  const plan::Plan& plan() const { return start_.prepared->plan; }
  std::string checkpoint_dir() const { return c_.run_dir + "/checkpoints"; }
  runtime::Task<Status> begin_write(io::CheckpointPart part, Json cursor);

  RankContext& c_;
  runtime::Runtime& rt_;
  const StartState& start_;
  const bool chief_;
  record::MetricsLog metrics_;
  io::CheckpointWriter writer_;
  record::Position at_;
  std::int64_t total_batches_ = 0, per_epoch_ = 1;
  std::int64_t measured_samples_ = 0;
  std::int64_t epoch_samples_ = 0;
  double epoch_loss_ = 0, epoch_correct_ = 0;
  engine::EvalOutput test_, validation_;
  TimeNs started_ = 0, train_ns_ = 0;
  TimeNs saved_at_ = 0;           // or when the run began
  std::int64_t best_saved_ = -1;  // Best::step of the last checkpoint
  std::vector<bool> sees_;        // which ranks see the folder of checkpoints; empty: nobody has asked
};

}  // namespace trireme::train
