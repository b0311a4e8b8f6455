// LockStepWorker: one rank's run under a rule whose workers step together. Internal to train_rank.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/data/leases.h"
#include "trireme/engine/device_exchange.h"
#include "trireme/engine/replica.h"
#include "trireme/engine/state/share_weights.h"
#include "trireme/engine/trace.h"
#include "trireme/job/job_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/record/worker_shares.h"
#include "trireme/train/choose_again.h"
#include "trireme/train/leased_worker.h"
#include "trireme/train/run_account.h"
#include "trireme/train/start.h"
#include "trireme/train/step_totals.h"
#include "trireme/train/train_rank.h"

namespace trireme::train {

// One rank's run in lock step with the others. Rank 0 also keeps the lease book, the metrics and the
// checkpoints.
class LockStepWorker {
 public:
  LockStepWorker(RankContext& context, comm::Group& group, StartState start, KeepUntilLeft& keep)
      : c_(context),
        rt_(*context.rt),
        group_(group),
        keep_(keep),
        start_(std::move(start)),
        schedule_(job::schedule_of(context.job)),
        leases_(start_.prepared->plan.logical_shards),
        account_(context, start_, group.rank() == 0) {}

  runtime::Task<Result<record::Summary>> run();

 private:
  bool chief() const { return group_.rank() == 0; }
  bool writes() const { return account_.writes(); }
  record::Position& at() { return account_.at(); }
  const record::Position& at() const { return account_.at(); }
  std::int64_t total_batches() const { return account_.total_batches(); }
  std::int64_t per_epoch() const { return account_.per_epoch(); }
  const plan::Plan& plan() const { return start_.prepared->plan; }

  runtime::Task<Status> share_model(engine::ReplicaLinks& links);
  runtime::Task<Status> begin();
  runtime::Task<Status> restore();
  runtime::Task<Status> loop();
  runtime::Task<Status> one_step();
  runtime::Task<Status> drain();
  bool balances() const;
  runtime::Task<Status> balance();
  bool measures_codecs() const;
  void begin_look();
  runtime::Task<Status> look_at_codecs();
  runtime::Task<Status> change_codecs(CodecChange change);
  runtime::Task<Status> evaluate(bool at_end, bool logged = true);
  runtime::Task<Status> checkpoint();
  runtime::Task<Status> check_replicas();
  runtime::Task<Status> write_trace();
  engine::StepInput next_step() const;
  void count(const engine::StepInput& input, const engine::StepOutput& out, TimeNs step_ns);
  Status learn(const std::vector<engine::StepResult>& results);
  // The logical shards of this rank's replica.
  collective::LeafRun own_run() const {
    return replica_->owners()[static_cast<std::size_t>(plan().mesh().replica_of(group_.rank()))];
  }
  record::WorkerShare own_share() const;
  record::Summary summarise() const;
  void report_codec_on_gpu(const comm::SumStats& coded, record::Summary& s) const;
  bool ended() const { return at().batches >= total_batches() || stopped_ || at().has_ended(); }
  bool saves() const;  // now, by steps, by time, at the end, or since this is the best model
  bool due(std::int64_t every) const;
  std::int64_t total_samples() const {
    return std::max<std::int64_t>(1, total_batches() * c_.job.train.batch);
  }

  RankContext& c_;
  runtime::Runtime& rt_;
  comm::Group& group_;
  KeepUntilLeft& keep_;
  StartState start_;
  model::Schedule schedule_;
  data::LeaseBook leases_;
  RunAccount account_;
  std::unique_ptr<engine::MeshLines> lines_;
  std::vector<engine::RowsOfStage> rows_of_stages_;     // empty: there is one stage
  std::shared_ptr<comm::AxisExchange> model_exchange_;  // null: activations pass through the host, or stay
  std::shared_ptr<comm::DeviceSum> device_sum_;  // null: gradients are added on the host, or not at all
  std::unique_ptr<engine::Replica> replica_;
  std::int64_t measured_steps_ = 0;
  StepTotals totals_;
  TimeNs balanced_ns_ = 0;  // computed before the last look at the speeds
  CodecKeeper keeper_;
  struct {
    std::int64_t steps = 0;
    TimeNs compute_ns = 0, stepped_ns = 0;
    std::int64_t from = kWarmSteps;  // before, some wait for others that are not ready yet
  } looked_;                         // when the codecs were last looked at
  Json codec_changes_ = Json::array();
  struct {
    bool changed = false;   // the codecs, since the last checkpoint
    bool improved = false;  // the last evaluation is the best one, and not saved yet
    bool wanted = false;    // by rank 0's clock
  } save_;
  bool stopped_ = false;
  struct Unknown {
    engine::StepInput input;
    bool applied = true;
    double grad_norm = 0;
  };
  std::deque<Unknown> unknown_;  // steps of which nothing has been learned yet
  bool tested_ = false;          // the test part was evaluated
  std::vector<engine::StepSpan> spans_;
  std::vector<record::WorkerShare> shares_;  // of all workers, at the end
  bool traced_ = false;
};

}  // namespace trireme::train
