#include "trireme/engine/stage/stage_evaluator.h"

#include <algorithm>

#include "trireme/data/prefetch.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using runtime::Task;

Result<std::unique_ptr<StageEvaluator>> StageEvaluator::make(runtime::Runtime& rt,
                                                             StageEvaluatorOptions options) {
  std::unique_ptr<StageEvaluator> made(new StageEvaluator(rt, std::move(options)));
  TR_RETURN_IF_ERROR(made->make_values());
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  const prepare::Prepared& prepared = *made->o_.prepared;
  TR_ASSIGN_OR_RETURN(made->batch_, prepare::allocate_batch(device, prepared.input, prepared.eval_batch));
  TR_RETURN_IF_ERROR(made->make_executions());
  if (made->o_.gathers != nullptr)
    made->weights_ =
        std::make_unique<SegmentWeights>(rt, *made->o_.gathers, SegmentWeights::Of::kEvaluations);
  return made;
}

// Those that some segment of this rank makes or reads, or that pass through.
Status StageEvaluator::make_values() {
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  for (const parallel::Crossing& c : stages().eval) {
    Tensor& value = values_.emplace_back();
    for (const prepare::StageSegment& s : stages().segments) {
      if (!value.is_null() || s.index < c.from || s.index > c.last) continue;
      TR_ASSIGN_OR_RETURN(value, allocate_zeros(device, c.type));
    }
  }
  return {};
}

Status StageEvaluator::make_executions() {
  std::size_t bytes = 1;
  for (const prepare::StageSegment& s : stages().segments)
    bytes = std::max(bytes, static_cast<std::size_t>(s.eval->scratch_bytes()));
  Buffer scratch;  // of whoever runs
  if (rt_.is_phantom()) {
    scratch = Buffer::phantom(phantom_device(), bytes);
  } else {
    TR_ASSIGN_OR_RETURN(scratch, cpu_device().allocate(bytes));
  }
  for (const prepare::StageSegment& s : stages().segments) {
    exec::ExecutionOptions options;
    options.variables = o_.variables;
    options.host_ops = o_.host_ops;
    options.scratch = scratch;
    const auto& crossings = stages().eval;
    for (std::size_t i = 0; i < crossings.size(); ++i)
      if (crossings[i].from == s.index) options.bindings[crossings[i].name] = values_[i];
    TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt_, s.eval, std::move(options)));
    for (std::size_t i = 0; i < crossings.size(); ++i)
      if (crossings[i].from != s.index && s.eval->graph().find_input(crossings[i].name))
        TR_RETURN_IF_ERROR(execution->feed(crossings[i].name, values_[i]));
    TR_RETURN_IF_ERROR(prepare::feed_batch(*execution, s.eval->graph(), o_.prepared->input, batch_));
    TR_RETURN_IF_ERROR(prepare::feed_tile(*execution, s.eval->graph(), o_.prepared->tile));
    executions_.push_back(std::move(execution));
  }
  return {};
}

std::int64_t StageEvaluator::num_batches(Part part) const {
  const std::int64_t batch = o_.prepared->eval_batch;
  return (range_of(*o_.data, part).count + batch - 1) / batch;
}

std::vector<std::int64_t> StageEvaluator::ids_of(const PartRange& range, std::int64_t batch) const {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(o_.prepared->eval_batch), -1);
  for (std::size_t j = 0; j < ids.size(); ++j) {
    const std::int64_t at = batch * o_.prepared->eval_batch + static_cast<std::int64_t>(j);
    if (at < range.count) ids[j] = range.first + at;
  }
  return ids;
}

Task<Status> StageEvaluator::fill(const PartRange& range, std::int64_t batch) {
  data::PlannedBatch planned;
  planned.ids = ids_of(range, batch);
  const data::BatchView view = prepare::view_of(batch_, o_.prepared->input);
  co_await data::fill_on_pool(rt_, o_.data, std::move(planned), view);
  co_return Status();
}

// What crosses the end of segment `from`, between the stages that have it and the next segment.
Task<Status> StageEvaluator::pass(std::int64_t step, std::int64_t batch, std::int32_t from, bool sends) {
  const auto& crossings = stages().eval;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    const parallel::Crossing& c = crossings[i];
    if (c.from > from || c.last <= from) continue;
    comm::Call call;
    call.step = static_cast<std::uint32_t>(step);
    call.iteration = static_cast<std::uint16_t>(batch);
    call.slot = static_cast<std::uint16_t>(
        stages().eval_slots[i][static_cast<std::size_t>(stages().virtual_stage_of(from))]);
    call.label =
        fmt::format("of activations, evaluation batch {}, segment {}", batch, sends ? from : from + 1);
    const int peer = stages().stage_of(sends ? from + 1 : from);
    // Not one co_await or the other in one expression: GCC 12 would destroy what it gives twice.
    Task<Status> passed = sends ? o_.line->send(std::move(call), peer, values_[i])
                                : o_.line->recv(std::move(call), peer, values_[i]);
    TR_CO_RETURN_IF_ERROR(co_await std::move(passed));
  }
  co_return Status();
}

Status StageEvaluator::read(std::size_t segment, std::int64_t batch, std::span<float> results) const {
  if (rt_.is_phantom() || o_.prepared->tile > 0) return {};  // every tile has them
  const std::pair<const char*, std::int64_t> outputs[] = {{"loss", 0}, {"correct", 1}};
  for (const auto& [name, place] : outputs) {
    if (!stages().segments[segment].eval->graph().find_output(name)) continue;
    TR_ASSIGN_OR_RETURN(const Tensor value, executions_[segment]->fetch(name));
    const auto at = static_cast<std::size_t>(2 * batch + place);
    if (at < results.size()) results[at] = *value.data<float>();
  }
  return {};
}

Task<Status> StageEvaluator::run_batch(std::int64_t step, std::int64_t batch, std::span<float> results) {
  const auto& own = stages().segments;
  const exec::RunOptions how{.number = static_cast<std::uint64_t>(batch)};
  for (std::size_t s = 0; s < own.size(); ++s) {
    const std::int32_t g = own[s].index;
    const bool comes = g > 0 && stages().find(g - 1) == nullptr;
    if (comes) TR_CO_RETURN_IF_ERROR(co_await pass(step, batch, g - 1, false));
    if (weights_ != nullptr) TR_CO_RETURN_IF_ERROR(co_await weights_->take());
    TR_CO_RETURN_IF_ERROR(co_await executions_[s]->run(how));
    if (weights_ != nullptr) weights_->give_back();
    TR_CO_RETURN_IF_ERROR(read(s, batch, results));
    const bool goes = g + 1 < o_.prepared->plan.segments && stages().find(g + 1) == nullptr;
    if (goes) TR_CO_RETURN_IF_ERROR(co_await pass(step, batch, g, true));
  }
  co_return Status();
}

// A replica with fewer batches takes part in the gathers of the others.
Task<Status> StageEvaluator::run_all(std::int64_t step, Part part, BatchRange range,
                                     std::span<float> results) {
  const PartRange samples = range_of(*o_.data, part);
  std::int64_t most = range.end - range.begin;
  if (weights_ != nullptr) {
    const std::int64_t replicas = o_.prepared->plan.workers();
    most = (num_batches(part) + replicas - 1) / replicas;
    weights_->set_uses(prepare::uses_of_evaluation(*o_.prepared, most));
    weights_->begin(static_cast<std::uint32_t>(step));
  }
  for (std::int64_t batch = range.begin; batch < range.end; ++batch) {
    TR_CO_RETURN_IF_ERROR(co_await fill(samples, batch));
    TR_CO_RETURN_IF_ERROR(co_await run_batch(step, batch, results));
  }
  for (std::int64_t more = range.end - range.begin; more < most; ++more)
    for (std::size_t s = 0; s < stages().segments.size(); ++s) {
      TR_CO_RETURN_IF_ERROR(co_await weights_->take());
      weights_->give_back();
    }
  co_return Status();
}

Task<Status> StageEvaluator::run(std::int64_t step, Part part, BatchRange range, std::span<float> results) {
  const Status status = co_await run_all(step, part, range, results);
  if (!status.ok() && weights_ != nullptr) o_.gathers->fail("evaluation", status);
  if (weights_ != nullptr) co_await weights_->drained();
  co_return status;
}

}  // namespace trireme::engine
