#include "trireme/engine/updates.h"

#include <cmath>

#include "trireme/job/job_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/own_update.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using runtime::Task;

namespace {

// What encoders send are velocities: those of gradients that have nothing to do with each other are 1 /
// sqrt(1 - momentum^2) times as long, and so is the limit.
float clip_of_velocities(const job::Job& job, double momentum, float norm) {
  const double limit = job.train.optimizer.clip_norm / std::sqrt(1 - momentum * momentum);
  return static_cast<float>(std::min(1.0, limit / (static_cast<double>(norm) + 1e-6)));
}

}  // namespace

Result<std::unique_ptr<Updates>> Updates::make(runtime::Runtime& rt, const UpdatesOptions& options) {
  std::unique_ptr<Updates> made(new Updates(rt, options));
  TR_RETURN_IF_ERROR(made->make_scalars());
  TR_RETURN_IF_ERROR(made->make_updates());
  TR_RETURN_IF_ERROR(made->make_checks());
  return made;
}

Tensor Updates::summed(std::size_t bucket, std::int64_t offset, const TensorType& type) const {
  return (*o_.sums)[bucket]->summed(offset, type);
}

Status Updates::feed_gradients(exec::Execution& execution, std::size_t bucket) const {
  const plan::Bucket& planned = plan().buckets[bucket];
  for (std::size_t p = 0; p < planned.parameters.size(); ++p) {
    TR_ASSIGN_OR_RETURN(const Tensor w, o_.weights->variables().get(planned.parameters[p]));
    const Tensor grad = summed(bucket, planned.offsets[p], w.type());
    TR_RETURN_IF_ERROR(execution.feed("grad:" + planned.parameters[p], grad));
  }
  return {};
}

// Rates that follow from whole tensors, of which other tiles have pieces too.
Status Updates::feed_rates(exec::Execution& execution, std::size_t bucket) {
  const plan::Bucket& planned = plan().buckets[bucket];
  std::vector<TensorLengths::Piece> pieces;
  for (std::size_t p = 0; p < planned.parameters.size(); ++p) {
    const std::string& name = planned.parameters[p];
    if (!o_.prepared->updates[bucket]->graph().find_input("rate:" + name)) continue;
    TR_ASSIGN_OR_RETURN(const Tensor w, o_.weights->variables().get(name));
    pieces.push_back({name, w, summed(bucket, planned.offsets[p], w.type())});
  }
  if (pieces.empty()) return {};
  TR_CHECK(o_.tiles != nullptr, "bucket {} has pieces of tensors, and there are no tiles", bucket);
  if (lengths_ == nullptr)
    lengths_ =
        std::make_unique<TensorLengths>(rt_, *o_.tiles, job::optimizer_spec(*o_.job, o_.prepared->sending));
  const plan::Slots slots{plan().buckets.size()};
  TR_RETURN_IF_ERROR(lengths_->add(bucket, slots.lengths(bucket), pieces));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    TR_RETURN_IF_ERROR(execution.feed("rate:" + pieces[i].parameter, lengths_->rate(bucket, i)));
  return {};
}

Result<std::unique_ptr<exec::Execution>> Updates::make_execution(const prepare::Compiled& compiled) const {
  exec::ExecutionOptions options;
  options.variables = &o_.weights->variables();
  options.mirror = o_.gpu->mirror.get();
  options.queue = o_.gpu->queue;
  return exec::make_execution(rt_, compiled, std::move(options));
}

// The worker's part of the bucket's weights and states, as vectors.
Result<std::unique_ptr<exec::Execution>> Updates::make_own(std::size_t bucket) {
  const plan::Bucket& planned = plan().buckets[bucket];
  const comm::Chunk chunk =
      comm::chunk_of(prepare::parameter_elems(planned), sizeof(float), o_.rank, o_.world);
  TR_ASSIGN_OR_RETURN(const std::vector<prepare::ParameterSlice> slices,
                      prepare::slices_of(planned, o_.prepared->parameters, chunk));
  TR_ASSIGN_OR_RETURN(const prepare::Compiled compiled,
                      prepare::compile_own_update(*o_.job, *o_.prepared, slices));
  if (compiled == nullptr) return std::unique_ptr<exec::Execution>();
  const auto add = [&](const std::string& name, const prepare::ParameterSlice& s) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor whole, o_.weights->variables().get(name));
    if (whole.shape().num_elems() == 0 || whole.type() == s.type()) return own_variables_.add(name, whole);
    return own_variables_.add(name,
                              Tensor(whole.buffer(), s.type(),
                                     whole.offset_bytes() + static_cast<std::size_t>(s.in_parameter) * 4));
  };
  for (const prepare::ParameterSlice& s : slices) {
    TR_RETURN_IF_ERROR(add(s.parameter->name, s));
    for (const model::StateVariable& state : o_.prepared->states)
      if (state.parameter == s.parameter->name) TR_RETURN_IF_ERROR(add(state.name, s));
  }
  exec::ExecutionOptions options;
  options.variables = &own_variables_;
  TR_ASSIGN_OR_RETURN(auto update, exec::make_execution(rt_, compiled, std::move(options)));
  for (const prepare::ParameterSlice& s : slices)
    TR_RETURN_IF_ERROR(update->feed("grad:" + s.parameter->name, summed(bucket, s.in_bucket, s.type())));
  return update;
}

Status Updates::make_scalars() {
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  for (Tensor* scalar : {&learning_rate_, &velocity_factor_, &momentum_kept_, &clip_}) {
    TR_ASSIGN_OR_RETURN(*scalar, allocate_zeros(device, {DType::kF32, Shape{}}));
  }
  TR_ASSIGN_OR_RETURN(step_, allocate_zeros(device, {DType::kI64, Shape{}}));
  TR_ASSIGN_OR_RETURN(finite_, allocate_zeros(device, {DType::kBool, Shape{}}));
  return {};
}

Status Updates::make_updates() {
  const std::pair<const char*, const Tensor*> scalars[] = {{"lr", &learning_rate_},
                                                           {"velocity_factor", &velocity_factor_},
                                                           {"momentum_kept", &momentum_kept_},
                                                           {"clip", &clip_},
                                                           {"step", &step_}};
  for (std::size_t i = 0; i < plan().buckets.size(); ++i) {
    std::unique_ptr<exec::Execution> update;
    if (o_.in_parts) {
      TR_ASSIGN_OR_RETURN(update, make_own(i));
    } else if (o_.here ||
               !plan().buckets[i].sends_factors()) {  // no gradient of factors that servers multiply
      if (o_.prepared->updates[i] == nullptr) {       // of another stage
        updates_.emplace_back();
        continue;
      }
      TR_ASSIGN_OR_RETURN(update, make_execution(o_.prepared->updates[i]));
      TR_RETURN_IF_ERROR(feed_gradients(*update, i));
      TR_RETURN_IF_ERROR(feed_rates(*update, i));
    }
    for (const auto& [name, tensor] : scalars)
      if (update != nullptr && o_.prepared->updates[i]->graph().find_input(name))
        TR_RETURN_IF_ERROR(update->feed(name, *tensor));
    updates_.push_back(std::move(update));
  }
  return {};
}

Status Updates::make_checks() {
  statistics_.resize(plan().buckets.size());
  for (std::size_t b = 0; b < statistics_.size(); ++b) {
    if (o_.prepared->statistics_updates[b] == nullptr) continue;
    TR_ASSIGN_OR_RETURN(statistics_[b], make_execution(o_.prepared->statistics_updates[b]));
    const plan::Bucket& bucket = plan().buckets[b];
    for (std::size_t s = 0; s < bucket.statistics.size(); ++s) {
      TR_ASSIGN_OR_RETURN(const Tensor t, o_.weights->variables().get(bucket.statistics[s]));
      const Tensor sum = summed(b, bucket.statistic_offsets[s], t.type());
      TR_RETURN_IF_ERROR(statistics_[b]->feed("stat:" + bucket.statistics[s], sum));
    }
  }
  if (o_.prepared->finite_check != nullptr) {
    TR_ASSIGN_OR_RETURN(finite_check_, make_execution(o_.prepared->finite_check));
    for (std::size_t b = 0; b < plan().buckets.size(); ++b)
      if (plan().buckets[b].num_elems > 0) TR_RETURN_IF_ERROR(feed_gradients(*finite_check_, b));
  }
  if (o_.prepared->scale_update != nullptr) {
    TR_ASSIGN_OR_RETURN(loss_scale_, make_execution(o_.prepared->scale_update));
    TR_RETURN_IF_ERROR(loss_scale_->feed("finite", finite_));
  }
  return {};
}

void Updates::begin(const StepInput& step) {
  now_ = static_cast<std::uint32_t>(step.step);
  if (rt_.is_phantom()) return;
  *learning_rate_.data<float>() = step.learning_rate;
  *velocity_factor_.data<float>() = step.velocity_factor;
  *momentum_kept_.data<float>() = step.momentum_kept;
  *step_.data<std::int64_t>() = step.applied + 1;
  *clip_.data<float>() = 1;
}

Task<Status> Updates::update(std::size_t bucket) {
  if (lengths_ != nullptr) {
    const float clip = rt_.is_phantom() ? 1 : *clip_.data<float>();
    TR_CO_RETURN_IF_ERROR(co_await lengths_->find(bucket, now_, clip));
  }
  if (o_.here && updates_[bucket] != nullptr) TR_CO_RETURN_IF_ERROR(co_await updates_[bucket]->run());
  if (statistics_[bucket] != nullptr && o_.weights->fills()) co_return co_await statistics_[bucket]->run();
  co_return Status();
}

Task<Result<GradientCheck>> Updates::check() {
  GradientCheck own;
  own.squares.assign(static_cast<std::size_t>(plan().segments), 0);
  TR_CO_RETURN_IF_ERROR(co_await finite_check_->run());
  TR_CO_RETURN_IF_ERROR(co_await o_.gpu->wait_for_queue(rt_));
  if (rt_.is_phantom()) co_return own;
  TR_CO_ASSIGN_OR_RETURN(const Tensor good, finite_check_->fetch("finite"));
  own.finite = *reinterpret_cast<const std::uint8_t*>(good.raw()) != 0;
  // A tile that has nothing for itself has no squares, and a stage none of other segments.
  for (std::size_t g = 0; g < own.squares.size(); ++g) {
    const std::string name = plan().segments > 1 ? fmt::format("squares:{}", g) : "squares";
    if (!o_.prepared->finite_check->graph().find_output(name)) continue;
    TR_CO_ASSIGN_OR_RETURN(const Tensor squares, finite_check_->fetch(name));
    own.squares[g] = *squares.data<float>();
  }
  co_return own;
}

Task<Status> Updates::decide(StepInput step, VoteOutcome vote, StepOutput& out) {
  const job::Job& job = *o_.job;
  const bool all_good = rt_.is_phantom() || (vote.finite && std::isfinite(vote.loss));
  if (!rt_.is_phantom()) {
    const double limit = job.train.optimizer.clip_norm;
    if (limit > 0) {
      const float norm = std::sqrt(vote.squares);
      const double momentum = job::coding_of(job, o_.prepared->sending).momentum;
      *clip_.data<float>() =
          step.momentum_kept == 0 ? clip_of_velocities(job, momentum, norm) : model::clip_factor(norm, limit);
      out.grad_norm = norm;
    }
    *reinterpret_cast<std::uint8_t*>(finite_.raw()) = all_good ? 1 : 0;
  }
  if (loss_scale_ != nullptr) TR_CO_RETURN_IF_ERROR(co_await adapt_loss_scale());
  out.applied = all_good || !(job.train.nan == "skip" || loss_scale_ != nullptr);
  co_return Status();
}

Task<Status> Updates::adapt_loss_scale() {
  TR_CO_RETURN_IF_ERROR(co_await loss_scale_->run());
  TR_CO_RETURN_IF_ERROR(co_await o_.gpu->wait_for_queue(rt_));
  if (o_.gpu->mirror == nullptr) co_return Status();
  co_return o_.gpu->mirror->download(
      *o_.weights->variables().get(prepare::kLossScale));  // batches are fed with it
}

}  // namespace trireme::engine
