#include "trireme/train/leased_worker.h"

#include <algorithm>
#include <numeric>

#include "trireme/engine/first_broken.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/train/joined_tensor.h"
#include "trireme/train/leased_worker_parts.h"

namespace trireme::train {

using runtime::Task;

namespace {

constexpr std::uint16_t kWorkersGroup = 1;  // beside the group of all ranks

Task<Result<engine::Lease>> ask_for_unit(comm::Mailbox& mail) {
  const TakeHead head;
  const auto answer = co_await mail.ask(0, head, net::View{}, net::View{});
  if (!answer.ok()) co_return answer.status();
  const TakeAnswer& said = answer->head;
  engine::Lease lease;
  lease.round = said.round;
  if (said.has_unit) lease.unit = engine::Unit{said.batch, static_cast<std::int32_t>(said.shard)};
  co_return lease;
}

// The agreed model, of which every rank of rank 0's replica keeps its part.
std::vector<DistantTensor> distant_model(comm::Mailbox& mail, const engine::Replica& replica,
                                         const prepare::Prepared& prepared) {
  std::vector<DistantTensor> out;
  const Result<io::NamedTensors> agreed = replica.agreed();
  if (prepared.plan.tiles == 1 || !agreed.ok()) return out;
  const parallel::Mesh mesh = mesh_of_replica(prepared.plan.mesh());
  for (std::uint32_t i = 0; i < agreed->size(); ++i) {
    const auto& [name, tensor] = (*agreed)[i];
    const prepare::LaidOut of = prepare::laid_out(prepared, name, tensor.type());
    const auto read = [&mail, of, mesh, i](int tile, std::uint64_t begin, MutByteView to) {
      const Shape own = parallel::local_shape(of.layout, mesh, tile, of.whole.shape);
      const KeptPlace at{tile, kAgreedState, i, TensorType{of.whole.dtype, own}.num_bytes()};
      return read_kept(mail, at, begin, to);
    };
    out.push_back(joined_tensor(name, of.whole, of.layout, mesh, read));
  }
  return out;
}

}  // namespace

Task<Result<engine::Lease>> LeasedWorker::take() {
  return ranks_->next_unit([this] { return ask_for_unit(*mail_); });
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
  input.stop_wanted = c_.stop.cancelled();
  Result<engine::StepOutput> out = co_await replica.run_unit(input, batch.tensors);
  if (!out.ok()) co_return out.status();
  ++share_.steps;
  share_.samples += batch.num_samples;
  out->compute_ns /= num_local_;  // as many at the same time
  out->exposed_ns /= num_local_;
  share_.compute_seconds += to_seconds(out->compute_ns);
  share_.exposed_seconds += to_seconds(out->exposed_ns);
  ranks_->note_met(out->axis_ns);
  UnitReport report;
  report.batch = unit.batch;
  report.shard = unit.shard;
  report.stop_wanted = out->stop || c_.stop.cancelled() ? 1 : 0;  // some rank of the replica was asked to
  report.samples = batch.num_samples;
  report.steps = share_.steps;
  report.loss = out->loss;
  report.correct = out->correct;
  report.learning_rate = point.lr;
  report.compute_ns = out->compute_ns;
  report.exposed_ns = out->exposed_ns;
  if (!ranks_->speaks()) co_return Status();
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
  if (begin == end || !ranks_->speaks()) co_return Status();
  ScoresHead head;
  head.part = static_cast<std::uint32_t>(bit);
  head.begin = begin;
  head.end = end;
  const net::View view{reinterpret_cast<std::byte*>(all.data() + 2 * begin),
                       static_cast<std::uint64_t>(2 * (end - begin)) * sizeof(float)};
  co_return co_await mail_->send(0, head, view);
}

// What this rank keeps for rank 0 while it saves, and, on rank 0, what a checkpoint holds of all ranks.
Task<Result<DistantState>> LeasedWorker::keep_state(const MeetingTicket& ticket) {
  DistantState out;
  if (ticket.saves == 0 || rt_.is_phantom()) co_return out;
  io::NamedTensors mine;
  if (ticket.saves == kSavesReplicas) {
    TR_CO_ASSIGN_OR_RETURN(mine, own_state(*replica_, row_));
  }
  kept_.keep(kReplicaState, mine);
  const engine::StateTypes own = engine::types_of(mine);
  TR_CO_ASSIGN_OR_RETURN(const std::vector<engine::StateTypes> by_place, co_await ranks_->gather_types(own));
  if (roles_.replica_of(group_.rank()) == 0 && !ranks_->is_one()) {
    TR_CO_ASSIGN_OR_RETURN(io::NamedTensors agreed, replica_->agreed());
    TR_CO_ASSIGN_OR_RETURN(const engine::HeldState held, ranks_->held(*replica_, agreed));
    TR_CO_ASSIGN_OR_RETURN(out.broken,
                           co_await engine::find_not_finite(rt_, *ranks_->lines()->model(), held, round_));
    kept_.keep(kAgreedState, std::move(agreed));
  }
  // From here on rank 0 may ask for it.
  TR_CO_RETURN_IF_ERROR(co_await ranks_->meet());
  if (!chief()) co_return out;
  comm::Mailbox& mail = group_.mailbox();
  out.model = distant_model(mail, *replica_, *start_.prepared);
  out.servers = server_tensors(rt_, mail, roles_, server_pieces_);
  for (engine::ReplicaTensor& t : engine::replica_tensors(by_place, ticket.num_present)) {
    const KeptPlace at{t.worker, kReplicaState, t.index};
    out.replicas.push_back(distant_tensor(mail, std::move(t.name), t.type, at));
  }
  co_return out;
}

Task<Result<MeetingTicket>> LeasedWorker::be_let_in() {
  TR_CO_RETURN_IF_ERROR(co_await replica_->rule().arrive());
  TR_CO_RETURN_IF_ERROR(co_await ranks_->meet());
  if (!ranks_->speaks()) {
    TR_CO_ASSIGN_OR_RETURN(const MeetingWord word, co_await ranks_->hear());
    co_return word.ticket();
  }
  MeetingTicket ticket;
  const ArriveHead arrive;
  const net::View into{reinterpret_cast<std::byte*>(&ticket), sizeof(ticket)};
  const auto let_in = co_await mail_->ask(0, arrive, net::View{}, into);
  if (!let_in.ok()) co_return let_in.status();
  ranks_->tell(MeetingWord::let_in(ticket));
  co_return ticket;
}

Task<Result<Go>> LeasedWorker::meet() {
  const TimeNs arrived = rt_.now();
  TR_CO_ASSIGN_OR_RETURN(const MeetingTicket ticket, co_await be_let_in());
  share_.exposed_seconds += to_seconds(rt_.now() - arrived);
  share_.waiting_seconds += to_seconds(rt_.now() - arrived);
  const int last_to_come = static_cast<int>(ticket.last_to_come);
  if (last_to_come != roles_.replica_of(group_.rank())) waited_for_[last_to_come] += rt_.now() - arrived;
  TR_CO_RETURN_IF_ERROR(co_await replica_->settle());
  const engine::ModelDistance own = co_await replica_->distance();
  std::vector<double> apart{own.apart, own.length};
  TR_CO_RETURN_IF_ERROR(co_await ranks_->add_up(apart));
  drift_ = engine::ModelDistance{apart[0], apart[1]}.as_share();
  if ((ticket.parts & kTestBit) != 0)
    TR_CO_RETURN_IF_ERROR(co_await score(ticket, engine::Part::kTest, kTestBit));
  if ((ticket.parts & kValidationBit) != 0)
    TR_CO_RETURN_IF_ERROR(co_await score(ticket, engine::Part::kValidation, kValidationBit));
  // Nobody steps before all are let go, and everybody's pushes are in since settle().
  TR_CO_ASSIGN_OR_RETURN(DistantState distant, co_await keep_state(ticket));
  ++round_;
  Result<Go> go = Go::kOn;
  if (!ranks_->speaks()) {
    go = co_await ranks_->obey(*replica_);
  } else if (chief()) {
    distant.score = [this](engine::Part part, std::int64_t begin, std::int64_t end,
                           std::span<float> results) {
      return ranks_->score(*replica_, part, begin, end, results);
    };
    go = co_await rounds_->grade(*coordinator_, ticket, drift_, std::move(distant));
  } else {
    const GoHead asked{drift_};
    const auto answer = co_await mail_->ask(0, asked, net::View{}, net::View{});
    if (answer.ok())
      go = answer->head.go;
    else
      go = answer.status();
  }
  kept_.forget(kReplicaState);
  kept_.forget(kAgreedState);
  if (go.ok() && ranks_->speaks()) ranks_->tell(MeetingWord::go_on(*go));
  co_return go;
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
  std::vector<double> sent{static_cast<double>(group_.stats().bytes_sent)};
  TR_CO_RETURN_IF_ERROR(co_await ranks_->add_up(sent));  // all of them have finished by then
  share_.bytes_sent = sent[0];
  if (!ranks_->speaks()) co_return Status();
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
  // The ranks of a replica make the hash together, so rank 0 has not begun to wait for other replicas.
  Result<std::string> hash = std::string();
  if (status.ok()) hash = co_await ranks_->hash_agreed(*replica_);
  if (status.ok()) status = hash.status();
  if (status.ok()) status = co_await farewell();
  if (!status.ok() && rounds_ != nullptr) (void)co_await rounds_->finish();  // a checkpoint under way
  if (!status.ok()) co_return status;
  if (chief()) {
    Round::Report axes = [this](record::Summary& s) { ranks_->report_axes(group_.stats(), share_, s); };
    co_return co_await rounds_->summarise(*coordinator_, roles_, std::move(*hash), std::move(axes));
  }
  record::Summary s;
  s.job = c_.job.name;
  s.workers = c_.num_workers_of(roles_.workers);
  s.servers = roles_.servers;
  s.agreement = plan().agreement;
  s.steps = share_.steps;
  s.samples = share_.samples;
  s.per_worker = {share_};
  s.finished = ended_;
  s.ok = true;
  s.parameters_sha256 = std::move(*hash);
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
  // Servers with processes of their own are no members of the workers' group.
  std::shared_ptr<comm::Group> workers;
  if (roles.workers < group.world()) {
    std::vector<int> ranks(static_cast<std::size_t>(roles.workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto made = group.subgroup(std::move(ranks), kWorkersGroup);
    if (!made.ok()) co_return made.status();
    workers = std::move(*made);
  }
  comm::Group& among = workers != nullptr ? *workers : group;
  TR_CO_ASSIGN_OR_RETURN(auto ranks, ReplicaRanks::make(*context.rt, among, roles));
  auto worker = std::make_shared<LeasedWorker>(context, group, std::move(ranks), roles, std::move(start));
  keep.push_back(worker);
  keep.push_back(workers);
  const Result<record::Summary> summary = co_await worker->run();
  if (!summary.ok()) co_return job::name_culprit(summary.status(), roles);
  co_return summary;
}

}  // namespace trireme::train
