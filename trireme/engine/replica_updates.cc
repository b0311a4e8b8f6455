// How a Replica applies gradients: the optimiser's graphs over whole buckets, or over the worker's part of
// weights that are shared.
#include <numeric>

#include "trireme/engine/replica_parts.h"
#include "trireme/prepare/own_update.h"

namespace trireme::engine {

Status Replica::Parts::feed_gradients(exec::Execution& execution,
                                      std::span<const std::size_t> buckets) const {
  for (const std::size_t i : buckets) {
    const plan::Bucket& bucket = plan().buckets[i];
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      TR_ASSIGN_OR_RETURN(const Tensor w, variables.get(bucket.parameters[p]));
      const Tensor grad = summed(i, bucket.offsets[p], w.type());
      TR_RETURN_IF_ERROR(execution.feed("grad:" + bucket.parameters[p], grad));
    }
  }
  return {};
}

// The worker's part of the bucket's weights and states, as vectors.
Result<std::unique_ptr<exec::Execution>> Replica::Parts::make_own_update(std::size_t bucket) {
  const plan::Bucket& planned = plan().buckets[bucket];
  const comm::Chunk chunk =
      comm::chunk_of(prepare::parameter_elems(planned), sizeof(float), group.rank(), group.world());
  TR_ASSIGN_OR_RETURN(const std::vector<prepare::Slice> slices,
                      prepare::slices_of(planned, prepared->parameters, chunk));
  TR_ASSIGN_OR_RETURN(const prepare::Compiled compiled, prepare::compile_own_update(job, *prepared, slices));
  if (compiled == nullptr) return std::unique_ptr<exec::Execution>();
  const auto add = [&](const std::string& name, const prepare::Slice& s) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor whole, variables.get(name));
    if (whole.shape().num_elems() == 0) return own_variables.add(name, whole);
    return own_variables.add(name,
                             Tensor(whole.buffer(), s.type(),
                                    whole.offset_bytes() + static_cast<std::size_t>(s.in_parameter) * 4));
  };
  for (const prepare::Slice& s : slices) {
    TR_RETURN_IF_ERROR(add(s.parameter->name, s));
    for (const model::StateVariable& state : prepared->states)
      if (state.parameter == s.parameter->name) TR_RETURN_IF_ERROR(add(state.name, s));
  }
  exec::ExecutionOptions options;
  options.variables = &own_variables;
  TR_ASSIGN_OR_RETURN(auto update, exec::make_execution(rt, compiled, std::move(options)));
  for (const prepare::Slice& s : slices)
    TR_RETURN_IF_ERROR(update->feed("grad:" + s.parameter->name, summed(bucket, s.in_bucket, s.type())));
  return update;
}

Status Replica::Parts::make_updates() {
  const TensorType scalar{DType::kF32, Shape{}};
  TR_ASSIGN_OR_RETURN(learning_rate, allocate_zeros(device(), scalar));
  TR_ASSIGN_OR_RETURN(velocity_factor, allocate_zeros(device(), scalar));
  TR_ASSIGN_OR_RETURN(momentum_kept, allocate_zeros(device(), scalar));
  TR_ASSIGN_OR_RETURN(clip, allocate_zeros(device(), scalar));
  TR_ASSIGN_OR_RETURN(update_step, allocate_zeros(device(), {DType::kI64, Shape{}}));
  TR_ASSIGN_OR_RETURN(finite, allocate_zeros(device(), {DType::kBool, Shape{}}));
  const auto make = [&](const prepare::Compiled& compiled) {
    exec::ExecutionOptions options;
    options.variables = &variables;
    options.mirror = mirror.get();
    options.queue = gpu_queue;
    return exec::make_execution(rt, compiled, std::move(options));
  };
  const std::pair<const char*, const Tensor*> scalars[] = {{"lr", &learning_rate},
                                                           {"velocity_factor", &velocity_factor},
                                                           {"momentum_kept", &momentum_kept},
                                                           {"clip", &clip},
                                                           {"step", &update_step}};
  for (std::size_t i = 0; i < plan().buckets.size(); ++i) {
    std::unique_ptr<exec::Execution> update;
    if (shares()) {
      TR_ASSIGN_OR_RETURN(update, make_own_update(i));
    } else if (!pushes_factors(i)) {
      TR_ASSIGN_OR_RETURN(update, make(prepared->updates[i]));
      TR_RETURN_IF_ERROR(feed_gradients(*update, std::span(&i, 1)));
    }
    for (const auto& [name, tensor] : scalars)
      if (update != nullptr && prepared->updates[i]->graph().find_input(name))
        TR_RETURN_IF_ERROR(update->feed(name, *tensor));
    updates.push_back(std::move(update));
  }
  if (prepared->statistics_update != nullptr) {
    TR_ASSIGN_OR_RETURN(statistics_update, make(prepared->statistics_update));
    const plan::Bucket& last = plan().buckets.back();
    for (std::size_t s = 0; s < last.statistics.size(); ++s) {
      TR_ASSIGN_OR_RETURN(const Tensor t, variables.get(last.statistics[s]));
      const Tensor sum = summed(plan().buckets.size() - 1, last.statistic_offsets[s], t.type());
      TR_RETURN_IF_ERROR(statistics_update->feed("stat:" + last.statistics[s], sum));
    }
  }
  if (prepared->gate != nullptr) {
    TR_ASSIGN_OR_RETURN(gate, make(prepared->gate));
    std::vector<std::size_t> all(plan().buckets.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    TR_RETURN_IF_ERROR(feed_gradients(*gate, all));
  }
  if (prepared->scale_update != nullptr) {
    TR_ASSIGN_OR_RETURN(scale_update, make(prepared->scale_update));
    TR_RETURN_IF_ERROR(scale_update->feed("finite", finite));
  }
  return {};
}

}  // namespace trireme::engine
