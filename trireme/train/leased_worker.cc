#include "trireme/train/leased_worker.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/server_updates.h"
#include "trireme/comm/mailbox.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/train/coordinator.h"
#include "trireme/train/first_broken.h"
#include "trireme/train/job_parts.h"
#include "trireme/train/leased_round.h"
#include "trireme/train/move_state.h"
#include "trireme/train/replica.h"
#include "trireme/train/replica_checkpoint.h"
#include "trireme/train/server_role.h"
#include "trireme/train/server_state.h"
#include "trireme/train/share_weights.h"
#include "trireme/train/worker_reports.h"

namespace trireme::train {
namespace {

using comm::Letter;
using runtime::Task;

constexpr std::uint16_t kWorkersGroup = 1;  // beside the group of all ranks

class LeasedWorker {
 public:
  LeasedWorker(RankContext& context, comm::Group& group, comm::Group& workers, Roles roles, StartState start)
      : c_(context),
        rt_(*context.rt),
        group_(group),
        workers_(workers),
        mail_(group.mailbox()),
        roles_(std::move(roles)),
        start_(std::move(start)),
        row_(**agree::find_agreement(start_.prepared->plan.agreement)),
        schedule_(schedule_of(context.job)),
        num_local_(std::max<std::int64_t>(1, rule_options(context.job).local_replicas)) {}

  ~LeasedWorker() {
    *alive_ = false;
    mail_.handle(kLetterTaken, {});
    if (!servers_.empty()) mail_.handle(kLetterServerState, {});
  }

  Task<Result<Summary>> run();

 private:
  bool chief() const { return group_.rank() == 0; }
  const plan::Plan& plan() const { return start_.prepared->plan; }

  Task<Status> begin();
  Task<Status> make_replica();
  Status make_local_replicas();
  Task<void> copy_unshared();
  Task<Status> restore();
  Task<Result<Lease>> take();
  Task<Status> loop();
  Task<Status> one_round(Replica& replica);
  Task<Status> one_unit(Replica& replica, const LeasedBatch& batch);
  Task<Result<Go>> meet();
  Task<Status> score(const MeetingTicket& ticket, Part part, std::int32_t bit);
  Task<Status> send_state();
  Task<Status> farewell();

  RankContext& c_;
  runtime::Runtime& rt_;
  comm::Group& group_;
  comm::Group& workers_;
  comm::Mailbox& mail_;
  Roles roles_;
  StartState start_;
  const agree::AgreementRow& row_;
  model::Schedule schedule_;
  const std::int64_t num_local_;                          // replicas on this worker's weights
  std::vector<std::unique_ptr<server::Server>> servers_;  // on this rank
  std::vector<StatePiece> server_pieces_;                 // rank 0: what servers keep beside the model
  std::unique_ptr<server::Client> client_;
  std::unique_ptr<Replica> replica_;
  std::vector<std::unique_ptr<Replica>> local_;  // beside it; they only step
  std::unique_ptr<Round> rounds_;                // rank 0: what is done, what comes next, what it came to
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<Unit> taken_;  // by others, before this worker began them
  WorkerShare share_;
  std::map<int, TimeNs> waited_for_;  // at meetings, by worker
  std::int64_t round_ = 0, clock_ = 0;
  std::int64_t per_epoch_ = 1, total_batches_ = 0;
  double drift_ = 0;
  bool ended_ = false;  // the whole job is done
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Task<Status> LeasedWorker::make_replica() {
  ReplicaLinks links;
  links.mail = &mail_;
  links.leased = true;
  if (roles_.servers > 0) {
    TR_CO_ASSIGN_OR_RETURN(const ServerPlan servers, plan_servers(c_.job, *start_.prepared, roles_));
    TR_CO_RETURN_IF_ERROR(server::slice_coders(servers.link, servers.layout, servers.keys).status());
    TR_CO_RETURN_IF_ERROR(server::slice_factors(servers.link.factors, servers.layout, servers.keys).status());
    client_ = server::make_client(rt_, mail_, group_.rank(), roles_.server_ranks, servers.layout,
                                  servers.keys, servers.link);
    links.servers = client_.get();
  }
  if (row_.shares_weights) {
    TR_CO_ASSIGN_OR_RETURN(links.shared_weights, co_await share_weights(rt_, workers_, plan()));
  }
  auto replica = Replica::make(rt_, workers_, c_.job, start_.prepared, c_.data, std::move(links));
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  TR_CO_RETURN_IF_ERROR(make_local_replicas());
  co_await replica_->clear();
  for (const auto& local : local_) co_await local->clear();
  co_return Status();
}

Status LeasedWorker::make_local_replicas() {
  const std::span<const Tensor> weights = replica_->weights();
  for (std::int64_t i = 1; i < num_local_; ++i) {
    ReplicaLinks links;
    links.leased = true;
    links.shared_weights.assign(weights.begin(), weights.end());
    links.first_local = replica_.get();
    TR_ASSIGN_OR_RETURN(auto made, Replica::make(rt_, workers_, c_.job, start_.prepared, c_.data, links));
    local_.push_back(std::move(made));
  }
  return {};
}

// What is no weight, such as frozen parameters, every replica has for itself.
Task<void> LeasedWorker::copy_unshared() {
  const io::NamedTensors from = replica_->parameters();
  for (const auto& replica : local_) {
    const io::NamedTensors to = replica->parameters();
    for (std::size_t i = 0; i < to.size(); ++i)
      if (to[i].second.raw() != from[i].second.raw()) co_await copy_tensor(rt_, from[i].second, to[i].second);
  }
}

Task<Status> LeasedWorker::restore() {
  co_await replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed));
  if (start_.resumed) {
    TR_CO_RETURN_IF_ERROR(co_await restore_state(rt_, workers_, replica_->parameters(), start_.restored));
    TR_CO_RETURN_IF_ERROR(
        co_await restore_replicas(rt_, workers_, own_state(*replica_, row_), start_.restored));
    clock_ = start_.at.batches;
    if (chief() && !rt_.is_phantom())
      TR_CO_RETURN_IF_ERROR(co_await restore_server_state(rt_, mail_, server_pieces_, start_.restored));
  } else if (!c_.job.model.init_from.empty() && !rt_.is_phantom()) {
    TR_CO_RETURN_IF_ERROR(co_await inherit_state(rt_, workers_, c_.job.model.init_from,
                                                 start_.prepared->inherited, replica_->parameters(),
                                                 start_.restored));
  }
  start_.restored.clear();
  co_await copy_unshared();
  if (client_ == nullptr || group_.rank() != 0) co_return Status();
  std::vector<Task<Status>> sent;
  for (std::size_t b = 0; b < replica_->weights().size(); ++b)
    sent.push_back(client_->init(static_cast<std::uint32_t>(b), replica_->weights()[b]));
  co_return co_await runtime::when_all(rt_, std::move(sent));
}

Task<Status> LeasedWorker::begin() {
  ServedState served;
  for (const int s : roles_.servers_on(group_.rank())) {
    auto server = make_job_server(rt_, mail_, c_.job, *start_.prepared, roles_, s);
    if (!server.ok()) co_return server.status();
    served[s] = (*server)->state();
    servers_.push_back(std::move(*server));
  }
  if (!servers_.empty()) answer_state_letters(rt_, mail_, std::move(served));
  if (chief()) {
    TR_CO_ASSIGN_OR_RETURN(server_pieces_, server_state_pieces(c_.job, *start_.prepared, roles_));
  }
  TR_CO_RETURN_IF_ERROR(co_await make_replica());
  per_epoch_ = replica_->order().batches_per_epoch();
  total_batches_ = c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch_;
  TR_CO_RETURN_IF_ERROR(co_await restore());
  share_.worker = group_.rank();
  mail_.handle(kLetterTaken, {nullptr, [this](int, const Letter& letter) {
                                taken_.push_back({letter.clock, static_cast<std::int32_t>(letter.key)});
                              }});
  if (chief()) {
    rounds_ = std::make_unique<Round>(c_, start_, *replica_, row_, total_batches_);
    TR_CO_RETURN_IF_ERROR(co_await rounds_->begin());
    auto options = rounds_->coordinator_options(roles_.workers);
    coordinator_ =
        std::make_unique<Coordinator>(rt_, group_, rounds_->make_desk(roles_.workers), std::move(options));
    rounds_->open(*coordinator_);
  }
  // From here on, letters only where the rule lets others go on without one.
  TR_CO_RETURN_IF_ERROR(co_await start_together(group_, c_.job, roles_));
  mail_.on_lost([this, alive = alive_](int peer, const Status&) {
    if (*alive && peer < roles_.workers) replica_->rule().on_lost(peer);
  });
  if (chief()) rounds_->start_clock();
  replica_->start_feed([this] { return take(); });
  for (const auto& replica : local_) replica->start_feed([this] { return take(); });
  co_return Status();
}

Task<Result<Lease>> LeasedWorker::take() {
  Letter letter;
  letter.kind = kLetterTake;
  const Result<Letter> answer = co_await mail_.ask(0, letter, net::View{}, net::View{});
  if (!answer.ok()) co_return answer.status();
  Lease lease;
  lease.round = answer->number;
  if (answer->flags == 1) lease.unit = Unit{answer->clock, static_cast<std::int32_t>(answer->key)};
  co_return lease;
}

Task<Status> LeasedWorker::one_unit(Replica& replica, const LeasedBatch& batch) {
  const Unit unit = *batch.lease.unit;
  const auto total = std::max<std::int64_t>(1, total_batches_ * c_.job.train.batch);
  const model::SchedulePoint point = model::schedule_at(schedule_, unit.batch * c_.job.train.batch, total);
  StepInput input;
  input.step = clock_;
  input.applied = clock_;
  ++clock_;
  input.num_samples = batch.num_samples;
  input.learning_rate = static_cast<float>(point.lr);
  Result<StepOutput> out = co_await replica.run_unit(input, batch.tensors);
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
  Letter letter;
  letter.kind = kLetterDone;
  const net::View view{reinterpret_cast<std::byte*>(&report), sizeof(report)};
  co_return co_await mail_.send(0, letter, view);
}

Task<Status> LeasedWorker::score(const MeetingTicket& ticket, Part part, std::int32_t bit) {
  const std::int64_t batches = replica_->num_eval_batches(part);
  const std::int64_t begin = batches * ticket.index / ticket.num_present,
                     end = batches * (ticket.index + 1) / ticket.num_present;
  std::vector<float> all(static_cast<std::size_t>(2 * batches));
  TR_CO_RETURN_IF_ERROR(co_await replica_->score(part, begin, end, all));
  if (begin == end) co_return Status();
  Letter letter;
  letter.kind = kLetterScores;
  letter.key = static_cast<std::uint32_t>(bit);
  letter.clock = begin;
  letter.number = end;
  const net::View view{reinterpret_cast<std::byte*>(all.data() + 2 * begin),
                       static_cast<std::uint64_t>(2 * (end - begin)) * sizeof(float)};
  co_return co_await mail_.send(0, letter, view);
}

// What only this replica has, for a checkpoint from which all go on as they were.
Task<Status> LeasedWorker::send_state() {
  std::uint32_t key = 0;
  const io::NamedTensors mine = own_state(*replica_, row_);
  for (const auto& [name, tensor] : mine) {
    Letter letter;
    letter.kind = kLetterState;
    letter.key = key++;
    const net::View view{tensor.raw(), tensor.type().num_bytes()};
    if (view.bytes > 0) TR_CO_RETURN_IF_ERROR(co_await mail_.send(0, letter, view));
  }
  co_return Status();
}

Task<Result<Go>> LeasedWorker::meet() {
  MeetingTicket ticket;
  Letter arrive;
  arrive.kind = kLetterArrive;
  const net::View into{reinterpret_cast<std::byte*>(&ticket), sizeof(ticket)};
  const TimeNs arrived = rt_.now();
  TR_CO_RETURN_IF_ERROR(co_await replica_->rule().arrive());
  const Result<Letter> let_in = co_await mail_.ask(0, arrive, net::View{}, into);
  if (!let_in.ok()) co_return let_in.status();
  share_.exposed_seconds += to_seconds(rt_.now() - arrived);
  share_.waiting_seconds += to_seconds(rt_.now() - arrived);
  if (ticket.last_to_come != group_.rank()) waited_for_[ticket.last_to_come] += rt_.now() - arrived;
  if (chief()) rounds_->on_meeting();
  TR_CO_RETURN_IF_ERROR(co_await replica_->settle());
  drift_ = co_await replica_->drift();
  if ((ticket.parts & kTestBit) != 0) TR_CO_RETURN_IF_ERROR(co_await score(ticket, Part::kTest, kTestBit));
  if ((ticket.parts & kValidationBit) != 0)
    TR_CO_RETURN_IF_ERROR(co_await score(ticket, Part::kValidation, kValidationBit));
  if (ticket.saves == kSavesReplicas) TR_CO_RETURN_IF_ERROR(co_await send_state());
  ++round_;
  if (chief()) {
    // Everybody's pushes are in since settle(), and nobody steps before all are let go.
    io::NamedTensors servers;
    if (ticket.saves != 0 && !rt_.is_phantom()) {
      TR_CO_ASSIGN_OR_RETURN(servers, co_await collect_server_state(rt_, mail_, server_pieces_));
    }
    co_return co_await rounds_->grade(*coordinator_, ticket, drift_, std::move(servers));
  }
  Letter go;
  go.kind = kLetterGo;
  go.value = drift_;
  const Result<Letter> answer = co_await mail_.ask(0, go, net::View{}, net::View{});
  if (!answer.ok()) co_return answer.status();
  co_return static_cast<Go>(answer->flags);
}

// One replica's units, until nothing is left for this worker in the round. Its last batch is not released.
Task<Status> LeasedWorker::one_round(Replica& replica) {
  for (;;) {
    const TimeNs asked = rt_.now();
    Result<LeasedBatch> batch = co_await replica.next_unit();
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
  std::string text = final_words(share_, replica_->rule().report());
  Letter letter;
  letter.kind = kLetterFinal;
  const net::View view{reinterpret_cast<std::byte*>(text.data()), text.size()};
  TR_CO_RETURN_IF_ERROR(co_await mail_.send(0, letter, view));
  if (!chief()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await coordinator_->wait_for_finals());
  for (int rank = roles_.workers; rank < roles_.world; ++rank) {
    Letter end;
    end.kind = kLetterEnd;
    TR_CO_RETURN_IF_ERROR(co_await mail_.send(rank, end, net::View{}));
  }
  co_return co_await rounds_->finish();
}

Task<Result<Summary>> LeasedWorker::run() {
  Status status = co_await begin();
  if (status.ok()) status = co_await loop();
  if (status.ok()) status = co_await farewell();
  if (!status.ok() && rounds_ != nullptr) (void)co_await rounds_->finish();  // a checkpoint under way
  if (!status.ok()) co_return status;
  if (chief()) co_return co_await rounds_->summarise(*coordinator_, roles_, drift_);
  Summary s;
  s.job = c_.job.name;
  s.workers = roles_.workers;
  s.servers = roles_.servers;
  s.agreement = plan().agreement;
  s.steps = share_.steps;
  s.samples = share_.samples;
  s.per_worker = {share_};
  s.finished = ended_;
  s.ok = true;
  s.parameters_sha256 = co_await hash_parameters(rt_, replica_->agreed());
  co_return s;
}

}  // namespace

Task<Result<Summary>> run_leased(RankContext& context, comm::Group& group, StartState start,
                                 KeepUntilLeft& keep) {
  const Roles roles = roles_of(context.job);
  if (roles.world != group.world())
    co_return error(Code::kInvalid, "[train] the job has {} workers and servers, and {} ranks were started",
                    roles.world, group.world());
  if (!roles.is_worker(group.rank())) {
    const Result<Summary> served = co_await serve(context, group, roles, start, keep);
    if (!served.ok()) co_return name_culprit(served.status(), roles);
    co_return served;
  }
  // Servers with processes of their own are no members of the workers' group.
  std::shared_ptr<comm::Group> workers;
  if (roles.world > roles.workers) {
    std::vector<int> ranks;
    for (int r = 0; r < roles.workers; ++r) ranks.push_back(r);
    auto made = group.subgroup(std::move(ranks), kWorkersGroup);
    if (!made.ok()) co_return made.status();
    workers = std::move(*made);
  }
  comm::Group& among = workers != nullptr ? *workers : group;
  auto worker = std::make_shared<LeasedWorker>(context, group, among, roles, std::move(start));
  keep.push_back(worker);
  keep.push_back(workers);
  const Result<Summary> summary = co_await worker->run();
  if (!summary.ok()) co_return name_culprit(summary.status(), roles);
  co_return summary;
}

}  // namespace trireme::train
