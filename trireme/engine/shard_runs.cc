#include "trireme/engine/shard_runs.h"
#include "trireme/tensor/host_zeros.h"

#include <algorithm>
#include <cstring>

namespace trireme::engine {

using runtime::Task;

namespace {

Tensor part_of(const Tensor& vector, const TensorType& type, std::int64_t offset) {
  return Tensor(vector.buffer(), type, vector.offset_bytes() + static_cast<std::size_t>(offset) * 4);
}

bool same_memory(const Tensor& a, const Tensor& b) { return a.raw() == b.raw() && a.type() == b.type(); }

}  // namespace

// The gradients of a bucket, or the factors that stand for them.
Status ShardRuns::bind(std::size_t bucket, const Tensor& memory,
                       std::map<std::string, Tensor>& bindings) const {
  const plan::Bucket& planned = o_.prepared->plan.buckets[bucket];
  for (std::size_t p = 0; p < planned.parameters.size(); ++p) {
    const std::string& name = planned.parameters[p];
    if (planned.sends_factors()) {
      const graph::Graph& product = o_.prepared->products[bucket][p]->graph();
      bindings["factor:u:" + name] =
          part_of(memory, product.type(*product.find_input("u")), planned.factor_offsets[2 * p]);
      bindings["factor:v:" + name] =
          part_of(memory, product.type(*product.find_input("v")), planned.factor_offsets[2 * p + 1]);
      continue;
    }
    TR_ASSIGN_OR_RETURN(const Tensor w, o_.weights->variables().get(name));
    bindings["grad:" + name] = part_of(memory, w.type(), planned.offsets[p]);
  }
  for (std::size_t s = 0; s < planned.statistics.size(); ++s) {
    TR_ASSIGN_OR_RETURN(const Tensor t, o_.weights->variables().get(planned.statistics[s]));
    bindings["stat:" + planned.statistics[s]] = part_of(memory, t.type(), planned.statistic_offsets[s]);
  }
  return {};
}

Status ShardRuns::make_execution(std::size_t place, Shard& shard) const {
  exec::ExecutionOptions options;
  options.variables = &o_.weights->variables();
  options.host_ops = o_.host_ops;
  options.profile = o_.profile;
  options.mirror = o_.gpu->mirror.get();
  options.ahead = o_.gpu->ahead.get();
  options.queue = o_.gpu->queue;
  if (place == 0) options.device = o_.gpu->arena.get();  // shards may run at the same time
  for (std::size_t b = 0; b < shard.memory.size(); ++b)
    TR_RETURN_IF_ERROR(bind(b, shard.memory[b], options.bindings));
  TR_RETURN_IF_ERROR(o_.loss->bind(place, options.bindings));
  TR_ASSIGN_OR_RETURN(shard.execution, exec::make_execution(rt_, o_.prepared->train, std::move(options)));
  TR_RETURN_IF_ERROR(prepare::feed_tile(*shard.execution, o_.prepared->train->graph(), o_.prepared->tile));
  shard.execution->on_notice(
      [this, place](int notice, const std::shared_ptr<Event>& point) { o_.on_notice(place, notice, point); });
  if (o_.on_held) shard.execution->on_held([this] { o_.on_held(); });
  return {};
}

Result<ShardRuns::Shard> ShardRuns::make_shard(std::size_t place) const {
  Shard shard;
  for (const auto& sum : *o_.sums) {
    shard.memory.push_back(sum->memory(place));
    if (!o_.several_batches) continue;
    Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
    TR_ASSIGN_OR_RETURN(Tensor before, allocate_zeros(device, shard.memory.back().type()));
    shard.sums.push_back(std::move(before));
  }
  TR_RETURN_IF_ERROR(make_execution(place, shard));
  return shard;
}

Status ShardRuns::take_shards(collective::LeafRun run) {
  const auto count = static_cast<std::size_t>(run.count);
  while (shards_.size() > count) shards_.pop_back();
  for (std::size_t place = 0; place < count; ++place) {
    const bool fresh = place == shards_.size();
    const auto moved = [&](std::size_t b) {
      return !same_memory(shards_[place].memory[b], (*o_.sums)[b]->memory(place));
    };
    bool again = fresh;
    for (std::size_t b = 0; b < o_.sums->size() && !again; ++b) again = moved(b);
    if (again) {
      TR_ASSIGN_OR_RETURN(Shard shard, make_shard(place));
      if (fresh)
        shards_.push_back(std::move(shard));
      else
        shards_[place] = std::move(shard);
    }
    shards_[place].index = run.first + static_cast<std::int32_t>(place);
  }
  return {};
}

Task<Status> ShardRuns::run(std::size_t place, std::uint64_t number, const prepare::BatchTensors& batch,
                            std::span<const std::size_t> open) {
  exec::Execution& execution = *shards_[place].execution;
  TR_CO_RETURN_IF_ERROR(
      prepare::feed_batch(execution, o_.prepared->train->graph(), o_.prepared->input, batch));
  for (const std::size_t bucket : open) execution.open(static_cast<int>(bucket));
  const exec::RunOptions how{.number = number};
  co_return co_await execution.run(how);
}

void ShardRuns::open(std::size_t gate) const {
  for (const Shard& shard : shards_) shard.execution->open(static_cast<int>(gate));
}

void ShardRuns::cancel(const Status& status) const {
  for (const Shard& shard : shards_) shard.execution->cancel(status);
}

Task<void> ShardRuns::add_batch(bool first, bool last) {
  for (Shard& shard : shards_) {
    for (std::size_t i = 0; i < shard.memory.size(); ++i) {
      const Tensor& bucket = shard.memory[i];
      const Tensor& sum = shard.sums[i];
      const auto n = static_cast<double>(bucket.shape().num_elems());
      const cost::OpCost work{.flops = n, .bytes = 12 * n};
      runtime::ComputeFn add = [&bucket, &sum, first, last](runtime::ComputeContext&) {
        const std::span<float> to = (last ? bucket : sum).values<float>();
        const float *a = sum.data<float>(), *b = bucket.data<float>();
        if (first)
          std::memcpy(to.data(), b, to.size_bytes());
        else
          for (std::size_t k = 0; k < to.size(); ++k) to[k] = a[k] + b[k];
      };
      co_await rt_.compute(work, std::move(add), 1, "add batches");
    }
  }
}

TimeNs ShardRuns::held_ns() const {
  TimeNs held = 0;
  for (const Shard& shard : shards_) held = std::max(held, shard.execution->held_ns());
  return held;
}

TimeNs ShardRuns::met_ns() const {
  TimeNs met = 0;
  for (const Shard& shard : shards_) met = std::max(met, shard.execution->met_ns());
  return met;
}

std::vector<exec::Profile> ShardRuns::profiles() const {
  std::vector<exec::Profile> all;
  for (const Shard& shard : shards_)
    if (Result<exec::Profile> p = shard.execution->profile(); p.ok()) all.push_back(std::move(*p));
  return all;
}

}  // namespace trireme::engine
