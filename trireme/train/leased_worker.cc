#include "trireme/train/leased_worker.h"

#include <algorithm>

#include "trireme/engine/move_state.h"
#include "trireme/engine/replica_checkpoint.h"
#include "trireme/train/leased_worker_parts.h"
#include "trireme/train/server_role.h"

namespace trireme::train {

using runtime::Task;

namespace {
constexpr std::uint16_t kWorkersGroup = 1;  // beside the group of all ranks
}  // namespace

Task<Result<engine::Lease>> LeasedWorker::take() {
  const TakeHead head;
  const auto answer = co_await mail_->ask(0, head, net::View{}, net::View{});
  if (!answer.ok()) co_return answer.status();
  const TakeAnswer& said = answer->head;
  engine::Lease lease;
  lease.round = said.round;
  if (said.has_unit) lease.unit = engine::Unit{said.batch, static_cast<std::int32_t>(said.shard)};
  co_return lease;
}

Task<Status> LeasedWorker::one_unit(engine::Replica& replica, const engine::LeasedBatch& batch) {
  const engine::Unit unit = *batch.lease.unit;
  const auto total = std::max<std::int64_t>(1, total_batches_ * c_.job.train.batch);
  const model::SchedulePoint point = model::schedule_at(schedule_, unit.batch * c_.job.train.batch, total);
  engine::StepInput input;
  input.step = clock_;
  input.applied = clock_;
  ++clock_;
  input.num_samples = batch.num_samples;
  input.learning_rate = static_cast<float>(point.lr);
  Result<engine::StepOutput> out = co_await replica.run_unit(input, batch.tensors);
  if (!out.ok()) co_return out.status();
  ++share_.steps;
  share_.samples += batch.num_samples;
  out->compute_ns /= num_local_;  // as many at the same time
  out->exposed_ns /= num_local_;
  share_.compute_seconds += to_seconds(out->compute_ns);
  share_.exposed_seconds += to_seconds(out->exposed_ns);
  UnitReport report;
  report.batch = unit.batch;
  report.shard = unit.shard;
  report.stop_wanted = c_.stop.cancelled() ? 1 : 0;
  report.samples = batch.num_samples;
  report.steps = share_.steps;
  report.loss = out->loss;
  report.correct = out->correct;
  report.learning_rate = point.lr;
  report.compute_ns = out->compute_ns;
  report.exposed_ns = out->exposed_ns;
  const DoneHead head;
  const net::View view{reinterpret_cast<std::byte*>(&report), sizeof(report)};
  co_return co_await mail_->send(0, head, view);
}

Task<Status> LeasedWorker::score(const MeetingTicket& ticket, engine::Part part, std::int32_t bit) {
  const std::int64_t batches = replica_->num_eval_batches(part);
  const std::int64_t begin = batches * ticket.index / ticket.num_present,
                     end = batches * (ticket.index + 1) / ticket.num_present;
  std::vector<float> all(static_cast<std::size_t>(2 * batches));
  TR_CO_RETURN_IF_ERROR(co_await replica_->score(part, begin, end, all));
  if (begin == end) co_return Status();
  ScoresHead head;
  head.part = static_cast<std::uint32_t>(bit);
  head.begin = begin;
  head.end = end;
  const net::View view{reinterpret_cast<std::byte*>(all.data() + 2 * begin),
                       static_cast<std::uint64_t>(2 * (end - begin)) * sizeof(float)};
  co_return co_await mail_->send(0, head, view);
}

// Rank 0: what a checkpoint holds beside the agreed model, on whichever ranks. `mine` is what its own replica
// has of it.
DistantState LeasedWorker::distant_state(const MeetingTicket& ticket, const io::NamedTensors& mine) {
  DistantState out;
  if (ticket.saves == 0 || rt_.is_phantom()) return out;
  comm::Mailbox& mail = group_.mailbox();
  out.servers = server_tensors(rt_, mail, server_pieces_);
  const std::vector<std::vector<int>> replicas = roles_.replicas();
  for (engine::ReplicaTensor& t : engine::replica_tensors(mine, ticket.num_present)) {
    const int speaker = replicas[static_cast<std::size_t>(t.worker)].front();
    const KeptPlace at{speaker, kReplicaState, t.index};
    out.replicas.push_back(distant_tensor(mail, std::move(t.name), t.type, at));
  }
  return out;
}

Task<Result<Go>> LeasedWorker::meet() {
  MeetingTicket ticket;
  const ArriveHead arrive;
  const net::View into{reinterpret_cast<std::byte*>(&ticket), sizeof(ticket)};
  const TimeNs arrived = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await replica_->rule().arrive());
  const auto let_in = co_await mail_->ask(0, arrive, net::View{}, into);
  if (!let_in.ok()) co_return let_in.status();
  share_.exposed_seconds += to_seconds(rt_.now() - arrived);
  share_.waiting_seconds += to_seconds(rt_.now() - arrived);
  const int last_to_come = static_cast<int>(ticket.last_to_come);
  if (last_to_come != roles_.replica_of(group_.rank())) waited_for_[last_to_come] += rt_.now() - arrived;
  if (chief()) rounds_->on_meeting();
  TR_CO_RETURN_IF_ERROR(co_await replica_->settle());
  drift_ = co_await replica_->drift();
  if ((ticket.parts & kTestBit) != 0)
    TR_CO_RETURN_IF_ERROR(co_await score(ticket, engine::Part::kTest, kTestBit));
  if ((ticket.parts & kValidationBit) != 0)
    TR_CO_RETURN_IF_ERROR(co_await score(ticket, engine::Part::kValidation, kValidationBit));
  // Nobody steps before all are let go, and everybody's pushes are in since settle().
  io::NamedTensors mine;
  if (ticket.saves == kSavesReplicas) {
    TR_CO_ASSIGN_OR_RETURN(mine, own_state(*replica_, row_));
  }
  kept_.keep(kReplicaState, mine);
  ++round_;
  if (chief()) {
    Result<Go> graded = co_await rounds_->grade(*coordinator_, ticket, drift_, distant_state(ticket, mine));
    kept_.forget(kReplicaState);
    co_return graded;
  }
  const GoHead go{drift_};
  const auto answer = co_await mail_->ask(0, go, net::View{}, net::View{});
  kept_.forget(kReplicaState);
  if (!answer.ok()) co_return answer.status();
  co_return answer->head.go;
}

// One replica's units, until nothing is left for this worker in the round. Its last batch is not released.
Task<Status> LeasedWorker::one_round(engine::Replica& replica) {
  for (;;) {
    const TimeNs asked = rt_.now();
    Result<engine::LeasedBatch> batch = co_await replica.next_unit();
    if (!batch.ok()) co_return batch.status();
    share_.data_seconds += to_seconds((rt_.now() - asked) / num_local_);
    if (!batch->lease.unit && batch->lease.round >= round_) co_return Status();
    if (batch->lease.unit) {
      const auto taken = std::find(taken_.begin(), taken_.end(), *batch->lease.unit);
      if (taken != taken_.end()) {
        taken_.erase(taken);
      } else {
        TR_CO_RETURN_IF_ERROR(co_await one_unit(replica, *batch));
      }
    }
    replica.release();
  }
}

Task<Status> LeasedWorker::loop() {
  for (;;) {
    std::vector<Task<Status>> rounds;
    rounds.push_back(one_round(*replica_));
    for (const auto& replica : local_) rounds.push_back(one_round(*replica));
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(rounds)));
    Result<Go> go = co_await meet();
    if (!go.ok()) co_return go.status();
    ended_ = *go == Go::kEnd;
    if (*go != Go::kOn) co_return Status();
    replica_->release();
    for (const auto& replica : local_) replica->release();
  }
}

// Last words to rank 0; then the servers may go.
Task<Status> LeasedWorker::farewell() {
  TR_CO_RETURN_IF_ERROR(co_await replica_->rule().finish());
  share_.bytes_sent = static_cast<double>(group_.stats().bytes_sent);
  const auto longest = std::max_element(waited_for_.begin(), waited_for_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest != waited_for_.end() && longest->second > 0) share_.waits_for = longest->first;
  std::string text = record::final_words(share_, replica_->rule().report());
  const FinalHead words;
  const net::View view{reinterpret_cast<std::byte*>(text.data()), text.size()};
  TR_CO_RETURN_IF_ERROR(co_await mail_->send(0, words, view));
  if (!chief()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await coordinator_->wait_for_finals());
  for (int rank = roles_.workers; rank < roles_.world; ++rank) {
    const EndHead end;
    TR_CO_RETURN_IF_ERROR(co_await group_.mailbox().send(rank, end, net::View{}));
  }
  co_return co_await rounds_->finish();
}

Task<Result<record::Summary>> LeasedWorker::run() {
  Status status = co_await begin();
  if (status.ok()) status = co_await loop();
  if (status.ok()) status = co_await farewell();
  if (!status.ok() && rounds_ != nullptr) (void)co_await rounds_->finish();  // a checkpoint under way
  if (!status.ok()) co_return status;
  if (chief()) co_return co_await rounds_->summarise(*coordinator_, roles_);
  record::Summary s;
  s.job = c_.job.name;
  s.workers = roles_.workers;
  s.servers = roles_.servers;
  s.agreement = plan().agreement;
  s.steps = share_.steps;
  s.samples = share_.samples;
  s.per_worker = {share_};
  s.finished = ended_;
  s.ok = true;
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors agreed, replica_->agreed());
  s.parameters_sha256 = co_await engine::hash_parameters(rt_, std::move(agreed));
  co_return s;
}

Task<Result<record::Summary>> run_leased(RankContext& context, comm::Group& group, StartState start,
                                         KeepUntilLeft& keep) {
  const job::Roles roles = job::roles_of(context.job, start.prepared->plan.mesh());
  if (roles.world != group.world())
    co_return error(Code::kInvalid, "[train] the job has {} workers and servers, and {} ranks were started",
                    roles.world, group.world());
  if (!roles.is_worker(group.rank())) {
    const Result<record::Summary> served = co_await serve(context, group, roles, start, keep);
    if (!served.ok()) co_return job::name_culprit(served.status(), roles);
    co_return served;
  }
  // Servers with processes of their own, and ranks with another place in their replicas, are no members of
  // the workers' group.
  std::shared_ptr<comm::Group> workers;
  if (std::vector<int> ranks = roles.mesh.peers_of(group.rank());
      static_cast<int>(ranks.size()) < group.world()) {
    auto made = group.subgroup(std::move(ranks), kWorkersGroup);
    if (!made.ok()) co_return made.status();
    workers = std::move(*made);
  }
  comm::Group& among = workers != nullptr ? *workers : group;
  auto worker = std::make_shared<LeasedWorker>(context, group, among, roles, std::move(start));
  keep.push_back(worker);
  keep.push_back(workers);
  const Result<record::Summary> summary = co_await worker->run();
  if (!summary.ok()) co_return job::name_culprit(summary.status(), roles);
  co_return summary;
}

}  // namespace trireme::train
