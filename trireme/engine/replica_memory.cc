// What a replica holds: weights, statistics and states, the rule's model beside them, and what backward of
// every shard writes into.
#include <algorithm>
#include <cstring>

#include "trireme/engine/replica_parts.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/prepare/own_update.h"

namespace trireme::engine {

namespace {

template <class Named>
Result<const Named*> find_named(const std::vector<Named>& list, const std::string& name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Named& n) { return n.name == name; });
  if (at != list.end()) return &*at;
  return error(Code::kCorrupt, "[plan] a bucket names '{}', which the model does not have", name);
}

}  // namespace

// Weights lie as their gradients do, so that rules exchange whole buckets without a copy.
Status Replica::Parts::make_weights() {
  weights = links.shared_weights;
  if (!weights.empty()) return {};
  for (const plan::Bucket& bucket : plan().buckets) {
    TR_ASSIGN_OR_RETURN(Tensor memory, allocate_zeros(device(), {DType::kF32, {bucket.num_elems}}));
    weights.push_back(std::move(memory));
  }
  return {};
}

// Parameters and running statistics as views of one vector per bucket.
Status Replica::Parts::bind_weights(exec::Variables& to, const std::vector<Tensor>& memory) {
  for (std::size_t i = 0; i < plan().buckets.size(); ++i) {
    const plan::Bucket& bucket = plan().buckets[i];
    const auto part = [&](const TensorType& type, std::int64_t offset) {
      return Tensor(memory[i].buffer(), type,
                    memory[i].offset_bytes() + static_cast<std::size_t>(offset) * 4);
    };
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      TR_ASSIGN_OR_RETURN(const auto* found, find_named(prepared->parameters, bucket.parameters[p]));
      TR_RETURN_IF_ERROR(to.add(found->name, part(found->type, bucket.offsets[p])));
    }
    for (std::size_t s = 0; s < bucket.statistics.size(); ++s) {
      TR_ASSIGN_OR_RETURN(const auto* found, find_named(prepared->statistics, bucket.statistics[s]));
      const Tensor t = part(found->type, bucket.statistic_offsets[s]);
      if (t.raw() != nullptr && fills())
        std::fill_n(t.data<float>(), t.shape().num_elems(), static_cast<float>(found->initial));
      TR_RETURN_IF_ERROR(to.add(found->name, t));
    }
  }
  return {};
}

Status Replica::Parts::make_variables() {
  const auto add = [&](const std::string& name, const TensorType& type, double initial) -> Status {
    TR_ASSIGN_OR_RETURN(Tensor t, allocate_zeros(device(), type));
    if (t.raw() != nullptr && initial != 0)
      std::fill_n(t.data<float>(), t.shape().num_elems(), static_cast<float>(initial));
    return variables.add(name, std::move(t));
  };
  TR_RETURN_IF_ERROR(make_weights());
  TR_RETURN_IF_ERROR(bind_weights(variables, weights));
  for (const model::Parameter& p : prepared->frozen) TR_RETURN_IF_ERROR(add(p.name, p.type, 0));
  const prepare::StateLayout layout = prepare::state_layout(prepared->states);
  for (std::size_t i = 0; i < prepared->states.size(); ++i) {
    const model::StateVariable& s = prepared->states[i];
    if (links.shared_states.is_null()) {
      TR_RETURN_IF_ERROR(add(s.name, s.type, s.initial));
      continue;
    }
    const Tensor t(links.shared_states.buffer(), s.type,
                   links.shared_states.offset_bytes() + static_cast<std::size_t>(layout.offsets[i]) * 4);
    if (fills() && s.initial != 0)  // zeros they are
      std::fill_n(t.data<float>(), s.type.shape.num_elems(), static_cast<float>(s.initial));
    TR_RETURN_IF_ERROR(variables.add(s.name, t));
  }
  if (prepared->scale_update == nullptr) return {};
  TR_RETURN_IF_ERROR(add(prepare::kLossScale, {DType::kF32, Shape{}}, prepare::kFirstLossScale));
  return add(prepare::kGoodSteps, {DType::kI64, Shape{}}, 0);
}

// Where leased replicas have the rule's model, beside their own weights.
Status Replica::Parts::make_agreed() {
  if (!links.leased) return {};
  for (const plan::Bucket& bucket : plan().buckets) {
    TR_ASSIGN_OR_RETURN(Tensor memory, allocate_zeros(device(), {DType::kF32, {bucket.num_elems}}));
    agreed.push_back(std::move(memory));
  }
  TR_RETURN_IF_ERROR(bind_weights(agreed_variables, agreed));
  for (const model::Parameter& p : prepared->frozen) {
    TR_ASSIGN_OR_RETURN(Tensor same, variables.get(p.name));
    TR_RETURN_IF_ERROR(agreed_variables.add(p.name, std::move(same)));
  }
  return {};
}

// Backward writes into the memory of a bucket.
Status Replica::Parts::bind_gradients(const plan::Bucket& bucket, const Tensor& memory,
                                      exec::ExecutionOptions& options) {
  const TensorType scalar{DType::kF32, Shape{}};
  const auto bind = [&](const std::string& output, const TensorType& type, std::int64_t offset) {
    options.bindings[output] = Tensor(memory.buffer(), type, static_cast<std::size_t>(offset) * 4);
  };
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
    TR_ASSIGN_OR_RETURN(const Tensor w, variables.get(bucket.parameters[p]));
    bind("grad:" + bucket.parameters[p], w.type(), bucket.offsets[p]);
  }
  for (std::size_t s = 0; s < bucket.statistics.size(); ++s) {
    TR_ASSIGN_OR_RETURN(const Tensor t, variables.get(bucket.statistics[s]));
    bind("stat:" + bucket.statistics[s], t.type(), bucket.statistic_offsets[s]);
  }
  if (bucket.metrics_offset >= 0) {
    bind("loss", scalar, bucket.metrics_offset);
    bind("correct", scalar, bucket.metrics_offset + 1);
    if (gpu_queue != nullptr) {
      options.bindings["loss"] = Tensor(queued_metrics.buffer(), scalar, 0);
      options.bindings["correct"] = Tensor(queued_metrics.buffer(), scalar, 4);
    }
  }
  return {};
}

// The same for factors that servers multiply.
void Replica::Parts::bind_factors(std::size_t bucket, const Tensor& memory,
                                  exec::ExecutionOptions& options) const {
  const plan::Bucket& planned = plan().buckets[bucket];
  for (std::size_t p = 0; p < planned.parameters.size(); ++p) {
    const graph::Graph& product = prepared->products[bucket][p]->graph();
    for (const auto& [name, which] : {std::pair("u", 2 * p), std::pair("v", 2 * p + 1)})
      options.bindings[fmt::format("factor:{}:{}", name, planned.parameters[p])] =
          Tensor(memory.buffer(), product.type(*product.find_input(name)),
                 memory.offset_bytes() + static_cast<std::size_t>(planned.factor_offsets[which]) * 4);
  }
}

// The next bucket of a shard on the GPU, where it can be added to others', with the zeros of the host.
Status Replica::Parts::add_on_gpu(Shard& shard, std::size_t at) const {
  const Tensor& host = shard.buckets[shard.on_gpu.size()];
  if (links.device_sum != nullptr) {
    shard.on_gpu.push_back(links.device_sum->memory(at, shard.on_gpu.size()));
  } else {
    TR_ASSIGN_OR_RETURN(Tensor there, Tensor::allocate(*prepared->device, host.type()));
    shard.on_gpu.push_back(std::move(there));
    if (plan().logical_shards > 1)
      shard.locked.push_back(kernel::cuda::lock_pages(*kernel::cuda::as_cuda(prepared->device.get()),
                                                      host.raw(), host.type().num_bytes()));
  }
  return copy_on_gpu(host, shard.on_gpu.back());
}

// The shard at place `at`; the first one's memory is where the sum over ranks is made. `memory`: of the one
// that had the place before, or nothing.
Result<Shard> Replica::Parts::make_shard(std::int32_t index, std::size_t at, std::vector<Tensor> memory) {
  Shard shard;
  shard.index = index;
  shard.buckets = std::move(memory);
  exec::ExecutionOptions options;
  options.variables = &variables;
  options.profile = job.train.trace_steps > 0;
  options.mirror = mirror.get();
  options.ahead = ahead.get();
  options.queue = gpu_queue;
  if (at == 0) options.device = arena.get();  // shards may run at the same time
  for (std::size_t i = 0; i < plan().buckets.size(); ++i) {
    const plan::Bucket& bucket = plan().buckets[i];
    const std::int64_t elems = by_factors(i) ? 0 : pushes_factors(i) ? bucket.factor_elems : bucket.num_elems;
    const TensorType vector{DType::kF32, {elems}};
    if (i == shard.buckets.size()) {
      const bool summed_here = at == 0 && links.device_sum == nullptr;
      TR_ASSIGN_OR_RETURN(Tensor own,
                          summed_here ? group.allocate(vector) : allocate_zeros(device(), vector));
      // Shared memory is as others left it: initialise() clears it, or what goes to a GPU is cleared here.
      if (own.raw() != nullptr && summed_here && mirror != nullptr)
        std::memset(own.raw(), 0, vector.num_bytes());
      shard.buckets.push_back(std::move(own));
    }
    if (by_factors(i)) {
      factors->bind(i, index, options.bindings);
    } else if (pushes_factors(i)) {
      bind_factors(i, shard.buckets[i], options);
    } else {
      if (mirror != nullptr) TR_RETURN_IF_ERROR(add_on_gpu(shard, at));
      TR_RETURN_IF_ERROR(
          bind_gradients(bucket, mirror != nullptr ? shard.on_gpu[i] : shard.buckets[i], options));
    }
    if (job.train.optimizer.max_batch_multiplier > 1) {
      TR_ASSIGN_OR_RETURN(Tensor sum, allocate_zeros(device(), vector));
      shard.sums.push_back(std::move(sum));
    }
  }
  TR_ASSIGN_OR_RETURN(shard.execution, exec::make_execution(rt, prepared->train, std::move(options)));
  shard.execution->on_notice([this, at](int notice, const std::shared_ptr<Event>& point) {
    if (gpu_queue != nullptr)
      loss_written = point;
    else
      on_notice(at, notice);
  });
  return shard;
}

// The memory of the first shard stays where it is: updates read the sums there. Factors lie by shard, so a
// place that gets another shard gets another execution.
Status Replica::Parts::make_shards() {
  const collective::LeafRun run = owners[static_cast<std::size_t>(group.rank())];
  const auto count = static_cast<std::size_t>(run.count);
  while (shards.size() > count) shards.pop_back();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t index = run.first + static_cast<std::int32_t>(i);
    if (i == shards.size()) {
      TR_ASSIGN_OR_RETURN(Shard shard, make_shard(index, i, {}));
      shards.push_back(std::move(shard));
    } else if (factors != nullptr && shards[i].index != index) {
      TR_ASSIGN_OR_RETURN(shards[i], make_shard(index, i, shards[i].buckets));
    }
    shards[i].index = index;
  }
  return {};
}

}  // namespace trireme::engine
