// Round: rank 0's account of a run whose workers go at their own pace: what is done, when everybody meets,
// what a meeting came to, metrics, checkpoints, the summary.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/engine/replica.h"
#include "trireme/job/roles.h"
#include "trireme/train/lease_coordinator.h"
#include "trireme/train/run_account.h"

namespace trireme::train {

// What only this worker has and a checkpoint keeps (replica_checkpoint.h): all of a replica whose weights are
// its own between meetings, else what its rule keeps.
Result<io::NamedTensors> own_state(engine::Replica& replica, const agree::AgreementRow& row);

// Scores batches of the agreed model, by all ranks of rank 0's replica.
using ScoreBatches = std::function<runtime::Task<Status>(engine::Part part, std::int64_t begin,
                                                         std::int64_t end, std::span<float> results)>;

// What grading a round needs of other ranks.
struct DistantState {
  std::vector<DistantTensor> servers, replicas;  // for a checkpoint
  std::vector<DistantTensor> model;              // the agreed one, where rank 0 has a part of it only
  std::string broken;                            // a tensor of it that holds an infinity or NaN
  ScoreBatches score;                            // those that nobody has scored
};

class Round {
 public:
  Round(RankContext& context, const StartState& start, engine::Replica& replica,
        const agree::AgreementRow& row, std::int64_t total_batches);

  runtime::Task<Status> begin();
  engine::LeaseDesk make_desk(int num_replicas) const;
  LeaseCoordinatorOptions coordinator_options(int num_replicas);
  void open(LeaseCoordinator& coordinator);  // the first round
  void start_clock();                        // everybody is ready
  // After this worker's own share: waits for the others', grades, saves, opens the next round, lets all go.
  // `distant`: its tensors where the meeting saves.
  runtime::Task<Result<Go>> grade(LeaseCoordinator& coordinator, MeetingTicket ticket, double own_drift,
                                  DistantState distant);
  runtime::Task<Status> finish() { return account_.finish(); }
  // `hash`: of the agreed model. `report`: adds what rank 0 knows of itself.
  using Report = std::function<void(record::Summary&)>;
  runtime::Task<Result<record::Summary>> summarise(LeaseCoordinator& coordinator, const job::Roles& roles,
                                                   std::string hash, Report report);

 private:
  bool writes() const { return account_.writes(); }
  record::Position& at() { return account_.at(); }
  const record::Position& at() const { return account_.at(); }
  bool due(std::int64_t every, std::int64_t batches) const;
  std::int64_t next_end(std::int64_t from) const;
  std::int64_t batches_until_save() const;
  bool replicas_keep_state() const;
  void on_meeting();  // everybody is there
  MeetingTicket ticket() const;
  void on_report(int worker, const UnitReport& report);
  runtime::Task<Result<engine::EvalOutput>> read_scores(LeaseCoordinator& coordinator, engine::Part part,
                                                        std::int32_t bit, const ScoreBatches& score);
  runtime::Task<Status> evaluate(LeaseCoordinator& coordinator, const MeetingTicket& ticket,
                                 const ScoreBatches& score);
  runtime::Task<Status> checkpoint(LeaseCoordinator& coordinator, const MeetingTicket& ticket,
                                   DistantState distant);

  RankContext& c_;
  runtime::Runtime& rt_;
  const StartState& start_;
  engine::Replica& replica_;
  const agree::AgreementRow& row_;
  RunAccount account_;
  LeaseCoordinator* coordinator_ = nullptr;
  data::LeaseBook book_;  // at the start
  std::int64_t total_, per_epoch_, units_per_batch_;
  std::int64_t end_ = 0;  // of the round under way, in batches
  bool stopping_ = false, ended_ = false;
  std::int64_t begun_at_ = 0;  // batches that were done when this start began

  // Units since the last line of metrics.
  UnitReport sum_;
  std::int64_t units_ = 0;
  std::int64_t measured_units_ = 0;
  std::vector<float> scores_[2];
  TimeNs round_began_ = 0;
  LeaseCoordinator::Drift drift_;
};

}  // namespace trireme::train
