// LeasedWorker: one worker's run at its own pace. Rank 0 also coordinates. Internal to leased_worker*.cc.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/engine/replica.h"
#include "trireme/job/job_parts.h"
#include "trireme/record/worker_reports.h"
#include "trireme/train/lease_coordinator.h"
#include "trireme/train/leased_round.h"
#include "trireme/train/replica_mail.h"
#include "trireme/train/replica_ranks.h"
#include "trireme/train/server_role.h"
#include "trireme/train/server_state.h"

namespace trireme::train {

class LeasedWorker {
 public:
  LeasedWorker(RankContext& context, comm::Group& group, std::unique_ptr<ReplicaRanks> ranks,
               job::Roles roles, StartState start)
      : c_(context),
        rt_(*context.rt),
        group_(group),
        ranks_(std::move(ranks)),
        roles_(std::move(roles)),
        mail_(group.mailbox(), roles_.replicas(), roles_.replicas_seen_by(group.rank())),
        kept_(rt_, group.mailbox()),
        start_(std::move(start)),
        row_(**agree::find_agreement(start_.prepared->plan.agreement)),
        schedule_(job::schedule_of(context.job)),
        num_local_(std::max<std::int64_t>(
            1, context.job.parallel.agreement_options.integer(agree::kLocalReplicas))) {}

  ~LeasedWorker() {
    *alive_ = false;
    mail_->stop_handling<TakenHead>();
  }

  runtime::Task<Result<record::Summary>> run();

 private:
  bool chief() const { return group_.rank() == 0; }
  const plan::Plan& plan() const { return start_.prepared->plan; }

  runtime::Task<Status> begin();
  runtime::Task<Status> make_replica();
  Status make_local_replicas();
  runtime::Task<Status> restore();
  runtime::Task<Result<engine::Lease>> take();
  runtime::Task<Status> loop();
  runtime::Task<Status> one_round(engine::Replica& replica);
  runtime::Task<Status> one_unit(engine::Replica& replica, const engine::LeasedBatch& batch);
  runtime::Task<Result<MeetingTicket>> be_let_in();
  runtime::Task<Result<Go>> meet();
  runtime::Task<Status> score(const MeetingTicket& ticket, engine::Part part, std::int32_t bit);
  runtime::Task<Result<DistantState>> keep_state(const MeetingTicket& ticket);
  runtime::Task<Status> farewell();

  RankContext& c_;
  runtime::Runtime& rt_;
  comm::Group& group_;
  const std::unique_ptr<ReplicaRanks> ranks_;  // of this one's replica
  job::Roles roles_;
  const ReplicaMail mail_;
  KeptState kept_;  // what rank 0 reads for checkpoints
  StartState start_;
  const agree::AgreementRow& row_;
  model::Schedule schedule_;
  const std::int64_t num_local_;           // replicas on this worker's weights
  std::unique_ptr<JobServers> servers_;    // on this rank
  std::vector<StatePiece> server_pieces_;  // rank 0: what servers keep beside the model
  std::unique_ptr<server::Client> client_;
  std::unique_ptr<engine::Replica> replica_;
  std::vector<std::unique_ptr<engine::Replica>> local_;  // beside it; they only step
  std::unique_ptr<Round> rounds_;  // rank 0: what is done, what comes next, what it came to
  std::unique_ptr<LeaseCoordinator> coordinator_;
  std::vector<engine::Unit> taken_;  // by others, before this worker began them
  record::WorkerShare share_;
  std::map<int, TimeNs> waited_for_;  // at meetings, by worker
  std::int64_t round_ = 0, clock_ = 0;
  std::int64_t total_batches_ = 0;
  double drift_ = 0;
  bool ended_ = false;  // the whole job is done
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace trireme::train
