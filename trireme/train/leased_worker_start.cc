// How a worker at its own pace begins: its servers, its replicas, what a checkpoint gives back.
#include "trireme/engine/replica_checkpoint.h"
#include "trireme/engine/state/move_state.h"
#include "trireme/engine/state/share_weights.h"
#include "trireme/train/leased_worker_parts.h"
#include "trireme/train/server_role.h"

namespace trireme::train {

using runtime::Task;

Task<Status> LeasedWorker::make_replica() {
  engine::ReplicaLinks links;
  links.mail = &mail_.peers();
  links.leased = true;
  links.lines = ranks_->lines();
  if (roles_.servers > 0) {
    TR_CO_ASSIGN_OR_RETURN(const ServerPlan servers,
                           plan_servers(c_.job, *start_.prepared, roles_, ranks_->place()));
    TR_CO_RETURN_IF_ERROR(server::slice_coders(servers.link, servers.layout, servers.keys).status());
    TR_CO_RETURN_IF_ERROR(server::slice_factors(servers.link.factors, servers.layout, servers.keys).status());
    client_ = server::make_client(rt_, group_.mailbox(), roles_.server_ranks, servers.layout, servers.keys,
                                  servers.link);
    links.servers = client_.get();
  }
  if (row_.shares_weights) {
    TR_CO_ASSIGN_OR_RETURN(links.shared_weights,
                           co_await engine::share_weights(rt_, ranks_->peers(), plan()));
  }
  auto replica =
      engine::Replica::make(rt_, ranks_->workers(), c_.job, start_.prepared, c_.data, std::move(links));
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
    engine::ReplicaLinks links;
    links.leased = true;
    links.shared_weights.assign(weights.begin(), weights.end());
    links.first_local = replica_.get();
    TR_ASSIGN_OR_RETURN(
        auto made, engine::Replica::make(rt_, ranks_->workers(), c_.job, start_.prepared, c_.data, links));
    local_.push_back(std::move(made));
  }
  return {};
}

namespace {

// What is no weight, such as frozen parameters, every replica has for itself.
Task<Status> copy_unshared(runtime::Runtime& rt, const engine::Replica& first,
                           const std::vector<std::unique_ptr<engine::Replica>>& others) {
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors from, first.parameters());
  for (const auto& replica : others) {
    TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors to, replica->parameters());
    for (std::size_t i = 0; i < to.size(); ++i)
      if (to[i].second.raw() != from[i].second.raw())
        co_await engine::copy_tensor(rt, from[i].second, to[i].second);
  }
  co_return Status();
}

}  // namespace

Task<Status> LeasedWorker::restore() {
  TR_CO_RETURN_IF_ERROR(co_await replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed)));
  const bool reads = start_.stored.is_there();
  engine::HeldState model;
  if (reads) {
    TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors parameters, replica_->parameters());
    TR_CO_ASSIGN_OR_RETURN(model, replica_->held(parameters));
  }
  if (start_.resumed && reads) {
    TR_CO_RETURN_IF_ERROR(co_await engine::restore_pieces(rt_, ranks_->workers(), start_.stored, model,
                                                          {plan::kSlotRestore, 0, "restore"}));
    TR_CO_ASSIGN_OR_RETURN(io::NamedTensors own, own_state(*replica_, row_));
    const engine::StateTypes types = engine::types_of(own);
    TR_CO_ASSIGN_OR_RETURN(std::vector<engine::StateTypes> by_place, co_await ranks_->gather_types(types));
    TR_CO_RETURN_IF_ERROR(co_await engine::restore_replicas(rt_, ranks_->workers(), std::move(own),
                                                            std::move(by_place), start_.stored));
    clock_ = start_.at.batches;
    if (chief())
      TR_CO_RETURN_IF_ERROR(
          co_await restore_server_state(group_.mailbox(), server_pieces_, roles_, start_.stored));
  } else if (reads) {
    TR_CO_RETURN_IF_ERROR(co_await inherit_state(rt_, ranks_->workers(), c_.job.model.init_from,
                                                 start_.prepared->inherited, model, start_.stored));
  }
  start_.stored = {};
  TR_CO_RETURN_IF_ERROR(co_await copy_unshared(rt_, *replica_, local_));
  if (client_ == nullptr) co_return Status();
  // All workers have the same weights here.
  const server::InitShare share{ranks_->peers().rank(), ranks_->peers().world()};
  std::vector<Task<Status>> sent;
  for (std::size_t b = 0; b < replica_->weights().size(); ++b)
    sent.push_back(client_->init(static_cast<std::uint32_t>(b), replica_->weights()[b], share));
  co_return co_await runtime::when_all(rt_, std::move(sent));
}

Task<Status> LeasedWorker::begin() {
  TR_CO_ASSIGN_OR_RETURN(
      servers_, JobServers::make(rt_, group_.mailbox(), c_.job, *start_.prepared, roles_, group_.rank()));
  ServedState served = servers_->state();
  if (chief() || !servers_->empty()) {
    TR_CO_ASSIGN_OR_RETURN(server_pieces_, server_state_pieces(c_.job, *start_.prepared, roles_));
  }
  if (!servers_->empty()) {
    if (start_.resumed)
      TR_CO_RETURN_IF_ERROR(
          co_await read_server_state(start_.stored, server_pieces_, roles_, group_.rank(), served));
    for (auto& [number, tensors] : served) kept_.keep(number, std::move(tensors));
  }
  kept_.answer();
  TR_CO_RETURN_IF_ERROR(co_await make_replica());
  const std::int64_t per_epoch = replica_->order().batches_per_epoch();
  total_batches_ = c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch;
  TR_CO_RETURN_IF_ERROR(co_await restore());
  share_.worker = roles_.replica_of(group_.rank());
  mail_->handle<TakenHead>({nullptr, [this](int, const comm::Letter<TakenHead>& letter) {
                              const TakenHead& head = letter.head;
                              taken_.push_back({head.batch, static_cast<std::int32_t>(head.shard)});
                            }});
  if (chief()) {
    rounds_ = std::make_unique<Round>(c_, start_, *replica_, row_, total_batches_);
    TR_CO_RETURN_IF_ERROR(co_await rounds_->begin());
    const int replicas = roles_.num_replicas();
    coordinator_ = std::make_unique<LeaseCoordinator>(rt_, group_, *mail_, rounds_->make_desk(replicas),
                                                      rounds_->coordinator_options(replicas));
    rounds_->open(*coordinator_);
  }
  // From here on, letters only where the rule lets others go on without one.
  TR_CO_RETURN_IF_ERROR(co_await start_together(group_, c_.job, roles_));
  mail_.peers().on_lost([this, alive = alive_](int peer, const Status&) {
    if (*alive && peer < roles_.num_replicas()) replica_->rule().on_lost(peer);
  });
  ranks_->stop_together(group_, roles_);
  if (chief()) rounds_->start_clock();
  replica_->start_feed([this] { return take(); });
  for (const auto& replica : local_) replica->start_feed([this] { return take(); });
  co_return Status();
}

}  // namespace trireme::train
