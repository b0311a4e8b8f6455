// What changes while a run goes on: who has which shards, and what gradients travel in.
#include "trireme/train/lock_step_worker.h"

#include "trireme/engine/shard_state.h"
#include "trireme/engine/state/move_state.h"
#include "trireme/train/balance.h"

namespace trireme::train {
using runtime::Task;

// Whether shards could be given to others, now.
bool LockStepWorker::balances() const {
  const auto replicas = static_cast<std::int32_t>(plan().owners.size());
  return replicas > 1 && plan().segments == 1 && plan().logical_shards > replicas && device_sum_ == nullptr &&
         !ended() && measured_steps_ > 0 && measured_steps_ % kBalanceSteps == 0;
}

Task<Status> LockStepWorker::balance() {
  const parallel::Mesh mesh = plan().mesh();
  const std::int32_t count = own_run().count;
  plan::WorkerSpeed own;
  own.at_once = replica_->shards_at_once();
  const std::int32_t waves = (count + own.at_once - 1) / own.at_once;
  own.wave_seconds = to_seconds(totals_.compute_ns() - balanced_ns_) / (waves * kBalanceSteps);
  balanced_ns_ = totals_.compute_ns();
  auto better =
      co_await better_owners(rt_, group_, at().steps, own, mesh, replica_->owners(), plan().logical_shards);
  if (!better.ok()) co_return better.status();
  if (better->empty()) co_return Status();
  const engine::HeldState before = engine::held_shards(*replica_, group_);
  TR_CO_RETURN_IF_ERROR(replica_->reassign(std::move(*better), at().batches, total_batches()));
  const engine::HeldState now = engine::held_shards(*replica_, group_);
  co_return co_await engine::move_shard_state(rt_, group_, before, now, at().steps);
}

// Now and then, whether gradients should travel otherwise.
bool LockStepWorker::measures_codecs() const {
  return !rt_.is_phantom() && start_.prepared->device == nullptr &&
         chooses_again(c_.job, plan(), group_.world()) && !ended() && measured_steps_ > 0 &&
         measured_steps_ % kLookSteps == 0;
}

void LockStepWorker::begin_look() {
  looked_.steps = measured_steps_;
  looked_.compute_ns = totals_.compute_ns();
  looked_.stepped_ns = account_.train_ns() - totals_.data_ns();
}

Task<Status> LockStepWorker::look_at_codecs() {
  const auto steps = static_cast<double>(measured_steps_ - looked_.steps);
  CodecLook look;
  look.step = at().steps;
  look.own.compute_seconds = to_seconds(totals_.compute_ns() - looked_.compute_ns) / steps;
  const TimeNs stepped_ns =
      account_.train_ns() - totals_.data_ns();  // whoever waits for samples waits for no link
  look.own.step_seconds = to_seconds(stepped_ns - looked_.stepped_ns) / steps;
  look.keeper = &keeper_;
  begin_look();
  auto change = co_await agree_on_codecs(c_, group_, start_.prepared, look);
  if (!change.ok()) co_return change.status();
  if (change->prepared == nullptr) co_return Status();
  co_return co_await change_codecs(std::move(*change));
}

// The model goes on in the buckets of another plan. What encoders kept back is part of the next update.
Task<Status> LockStepWorker::change_codecs(CodecChange change) {
  auto kept = co_await sum_residuals(group_, plan(), start_.prepared->parameters, replica_->shard_state(),
                                     at().steps);
  if (!kept.ok()) co_return kept.status();
  io::NamedTensors saved;
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors before, replica_->state());
  for (const auto& [name, tensor] : before) {
    TR_CO_ASSIGN_OR_RETURN(Tensor copy, Tensor::allocate(cpu_device(), tensor.type()));
    co_await engine::copy_tensor(rt_, tensor, copy);
    saved.emplace_back(name, std::move(copy));
  }
  codec_changes_.push_back({{"step", at().steps},
                            {"from", plan().codec},
                            {"to", change.prepared->plan.codec},
                            {"why", change.why}});
  replica_.reset();
  start_.prepared = std::move(change.prepared);
  engine::ReplicaLinks links;
  links.lines = lines_.get();
  auto replica = engine::Replica::make(rt_, group_, c_.job, start_.prepared, c_.data, std::move(links));
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors state, replica_->state());
  for (const auto& [name, tensor] : state)
    for (const auto& [from, copy] : saved)
      if (from == name) co_await engine::copy_tensor(rt_, copy, tensor);
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  TR_CO_RETURN_IF_ERROR(replica_->add_to_next(*kept));
  replica_->start_feed(at().batches, total_batches());
  if (chief()) {
    rt_.log(fmt::format("from step {} on gradients travel by '{}': {}", at().steps + 1, plan().codec,
                        change.why));
    account_.log_codec(plan().codec, change.why);
  }
  if (writes()) {
    const std::string text = plan::to_json(plan()).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/plan.json", as_bytes(text)));
  }
  save_.changed = true;
  looked_.from = measured_steps_ + kWarmSteps;
  co_return Status();
}

}  // namespace trireme::train
