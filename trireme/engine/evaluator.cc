#include "trireme/engine/evaluator.h"

#include "trireme/data/prefetch.h"
#include "trireme/prepare/meetings.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

using runtime::Task;

std::string_view part_name(Part part) {
  return part == Part::kTest ? "test" : part == Part::kValidation ? "validation" : "train";
}

Result<Part> parse_part(std::string_view name) {
  for (const Part part : {Part::kTest, Part::kValidation, Part::kTrain})
    if (part_name(part) == name) return part;
  return error(Code::kInvalid, "[eval] --part: got '{}', expected test, validation or train", name);
}

PartRange range_of(const data::Dataset& data, Part part) {
  if (part == Part::kTrain) return {0, data.num_train};
  if (part == Part::kTest) return {data.num_train, data.num_test};
  return {data.num_train + data.num_test, data.num_validation};
}

BatchRange batches_of_replica(const graph::Graph& graph, std::int64_t batches, int replica, int replicas) {
  if (!prepare::replicas_meet(graph))
    return {batches * replica / replicas, batches * (replica + 1) / replicas};
  const std::int64_t each = (batches + replicas - 1) / replicas;
  return {each * replica, each * (replica + 1)};
}

struct Evaluator::State {
  State(runtime::Runtime& r, EvaluatorOptions opts) : rt(r), o(std::move(opts)) {}

  runtime::Runtime& rt;
  EvaluatorOptions o;
  std::vector<std::unique_ptr<exec::Execution>> executions;
  std::vector<prepare::BatchTensors> batches;

  std::vector<std::int64_t> ids_of(const PartRange& range, std::int64_t batch) const {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(o.batch), -1);
    for (std::size_t j = 0; j < ids.size(); ++j) {
      const std::int64_t at = batch * o.batch + static_cast<std::int64_t>(j);
      if (at < range.count) ids[j] = range.first + at;
    }
    return ids;
  }

  // Every slots-th batch from `begin` + slot on.
  Task<Status> run_slot(Part part, std::int64_t begin, std::int64_t end, std::size_t slot,
                        const Visitor& visitor) {
    const PartRange range = range_of(*o.data, part);
    const prepare::BatchTensors& batch = batches[slot];
    for (std::int64_t i = begin + static_cast<std::int64_t>(slot); i < end;
         i += static_cast<std::int64_t>(executions.size())) {
      data::PlannedBatch planned;
      planned.ids = ids_of(range, i);
      const std::vector<std::int64_t> ids = planned.ids;
      const data::BatchView view = prepare::view_of(batch, o.input);
      co_await data::fill_on_pool(rt, o.data, std::move(planned), view);
      const exec::RunOptions how{.number = static_cast<std::uint64_t>(i - begin)};
      TR_CO_RETURN_IF_ERROR(co_await executions[slot]->run(how));
      if (rt.is_phantom()) continue;
      TR_CO_RETURN_IF_ERROR(visitor(i, ids, batch, *executions[slot]));
    }
    co_return Status();
  }
};

Evaluator::Evaluator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Evaluator::~Evaluator() = default;

Result<std::unique_ptr<Evaluator>> Evaluator::make(runtime::Runtime& rt, EvaluatorOptions options) {
  auto state = std::make_unique<State>(rt, std::move(options));
  const EvaluatorOptions& o = state->o;
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  for (int i = 0; i < o.slots; ++i) {
    exec::ExecutionOptions with;
    with.variables = o.variables;
    with.mirror = o.mirror;
    with.device = o.arena;
    with.host_ops = o.host_ops;
    TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt, o.graph, std::move(with)));
    TR_ASSIGN_OR_RETURN(prepare::BatchTensors batch, prepare::allocate_batch(device, o.input, o.batch));
    TR_RETURN_IF_ERROR(prepare::feed_batch(*execution, o.graph->graph(), o.input, batch));
    TR_RETURN_IF_ERROR(prepare::feed_tile(*execution, o.graph->graph(), o.tile));
    state->executions.push_back(std::move(execution));
    state->batches.push_back(std::move(batch));
  }
  return std::unique_ptr<Evaluator>(new Evaluator(std::move(state)));
}

std::int64_t Evaluator::num_batches(Part part) const {
  return (range_of(*state_->o.data, part).count + state_->o.batch - 1) / state_->o.batch;
}

Task<Status> Evaluator::visit(Part part, std::int64_t begin, std::int64_t end, Visitor visitor) {
  std::vector<Task<Status>> running;
  for (std::size_t i = 0; i < state_->executions.size(); ++i)
    running.push_back(state_->run_slot(part, begin, end, i, visitor));
  co_return co_await runtime::when_all(state_->rt, std::move(running));
}

Task<Status> Evaluator::run(Part part, std::int64_t begin, std::int64_t end, std::span<float> results) {
  Visitor visitor = [results](std::int64_t batch, std::span<const std::int64_t>, const prepare::BatchTensors&,
                              const exec::Execution& run) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor loss, run.fetch("loss"));
    TR_ASSIGN_OR_RETURN(const Tensor correct, run.fetch("correct"));
    const auto at = static_cast<std::size_t>(2 * batch);
    if (at >= results.size()) return {};  // behind the last sample
    results[at] = *loss.data<float>();
    results[at + 1] = *correct.data<float>();
    return {};
  };
  co_return co_await visit(part, begin, end, std::move(visitor));
}

}  // namespace trireme::engine
