#include "trireme/train/replica.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/slots.h"

namespace trireme::train {
namespace {

using runtime::Task;

// The tensors that feed one Execution of a model graph.
struct BatchTensors {
  Tensor images, labels, weights, sample_ids, key, step;
};

Result<BatchTensors> allocate_batch(Device& device, const Shape& sample, std::int64_t n) {
  std::vector<std::int64_t> dims{n};
  for (const std::int64_t d : sample.dims()) dims.push_back(d);
  BatchTensors b;
  TR_ASSIGN_OR_RETURN(b.images, Tensor::allocate(device, {DType::kF32, Shape(dims)}));
  TR_ASSIGN_OR_RETURN(b.labels, Tensor::allocate(device, {DType::kI32, {n}}));
  TR_ASSIGN_OR_RETURN(b.weights, Tensor::allocate(device, {DType::kF32, {n}}));
  TR_ASSIGN_OR_RETURN(b.sample_ids, Tensor::allocate(device, {DType::kI64, {n}}));
  TR_ASSIGN_OR_RETURN(b.key, Tensor::allocate(device, {DType::kI64, Shape{}}));
  TR_ASSIGN_OR_RETURN(b.step, Tensor::allocate(device, {DType::kI64, Shape{}}));
  return b;
}

// Feeds what the graph asks for: a model without dropout has no key.
Status feed_batch(exec::Execution& execution, const graph::Graph& graph, const BatchTensors& b) {
  const std::pair<const char*, const Tensor*> feeds[] = {
      {"images", &b.images},         {"labels", &b.labels}, {"weights", &b.weights},
      {"sample_ids", &b.sample_ids}, {"key", &b.key},       {"step", &b.step}};
  for (const auto& [name, tensor] : feeds)
    if (graph.find_input(name)) TR_RETURN_IF_ERROR(execution.feed(name, *tensor));
  return {};
}

Result<Tensor> allocate_zeros(Device& device, const TensorType& type) {
  TR_ASSIGN_OR_RETURN(Tensor t, Tensor::allocate(device, type));
  if (t.raw() != nullptr) std::memset(t.raw(), 0, type.num_bytes());
  return t;
}

cost::OpCost batch_cost(const Tensor& images) {
  return {.flops = 2.0 * static_cast<double>(images.shape().num_elems()),
          .bytes = 5.0 * static_cast<double>(images.shape().num_elems())};
}

struct Shard {
  std::int32_t index = 0;  // logical shard
  std::unique_ptr<exec::Execution> execution;
  BatchTensors batch;
  std::vector<Tensor> buckets;  // f32 vectors, one per bucket: where backward writes
};

}  // namespace

struct Replica::Parts {
  Parts(runtime::Runtime& r, comm::Group& g, const Job& j, std::shared_ptr<const Prepared> p,
        std::shared_ptr<const data::Dataset> d)
      : rt(r), group(g), job(j), prepared(std::move(p)), data(std::move(d)) {}

  runtime::Runtime& rt;
  comm::Group& group;
  const Job& job;
  std::shared_ptr<const Prepared> prepared;
  std::shared_ptr<const data::Dataset> data;
  data::BatchCut cut;
  std::unique_ptr<agree::Agreement> agreement;
  exec::Variables variables;
  std::vector<Shard> shards;
  std::vector<std::unique_ptr<exec::Execution>> updates;  // per bucket
  std::vector<std::unique_ptr<exec::Execution>> evals;
  std::vector<BatchTensors> eval_batches;
  Tensor learning_rate, eval_results;
  std::uint64_t dropout_key = 0;

  // State of the step under way.
  StepInput now;
  std::vector<int> pending;  // notices left per bucket
  std::size_t buckets_left = 0;
  Status bucket_failure;
  std::unique_ptr<runtime::OneShot<bool>> buckets_done;

  const plan::Plan& plan() const { return prepared->plan; }
  Device& device() const { return rt.is_phantom() ? phantom_device() : cpu_device(); }

  Status make_variables();
  Status make_shards();
  Status make_updates();
  Status make_evals();
  void on_notice(int notice);
  Task<void> run_bucket(std::size_t bucket);
  Task<Status> run_shard(Shard& shard);
  Task<Status> run_eval(std::size_t slot);
  void fill_shard(Shard& shard);
  std::int64_t num_eval_batches() const;
  io::NamedTensors named(bool with_state) const;
};

Status Replica::Parts::make_variables() {
  for (const model::Parameter& p : prepared->parameters) {
    TR_ASSIGN_OR_RETURN(Tensor w, allocate_zeros(device(), p.type));
    TR_RETURN_IF_ERROR(variables.add(p.name, std::move(w)));
    if (job.train.optimizer.kind != "momentum") continue;
    TR_ASSIGN_OR_RETURN(Tensor v, allocate_zeros(device(), p.type));
    TR_RETURN_IF_ERROR(variables.add(velocity_name(p.name), std::move(v)));
  }
  return {};
}

Status Replica::Parts::make_shards() {
  const collective::LeafRun run = plan().owners[static_cast<std::size_t>(group.rank())];
  const TensorType scalar{DType::kF32, Shape{}};
  for (std::int32_t i = run.first; i < run.first + run.count; ++i) {
    Shard shard;
    shard.index = i;
    exec::ExecutionOptions options;
    options.variables = &variables;
    for (const plan::Bucket& bucket : plan().buckets) {
      // The first one is where the sum over ranks is made.
      const TensorType vector{DType::kF32, {bucket.num_elems}};
      TR_ASSIGN_OR_RETURN(Tensor memory,
                          i == run.first ? group.allocate(vector) : Tensor::allocate(device(), vector));
      if (memory.raw() != nullptr) std::memset(memory.raw(), 0, vector.num_bytes());
      const auto bind = [&](const std::string& output, const TensorType& type, std::int64_t offset) {
        options.bindings[output] = Tensor(memory.buffer(), type, static_cast<std::size_t>(offset) * 4);
      };
      for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
        const std::string& name = bucket.parameters[p];
        TR_ASSIGN_OR_RETURN(const Tensor w, variables.get(name));
        bind("grad:" + name, w.type(), bucket.offsets[p]);
      }
      if (bucket.metrics_offset >= 0) {
        bind("loss", scalar, bucket.metrics_offset);
        bind("correct", scalar, bucket.metrics_offset + 1);
      }
      shard.buckets.push_back(std::move(memory));
    }
    TR_ASSIGN_OR_RETURN(shard.execution, exec::make_execution(rt, prepared->train, std::move(options)));
    TR_ASSIGN_OR_RETURN(shard.batch, allocate_batch(device(), data->sample_shape, plan().shard_batch));
    TR_RETURN_IF_ERROR(feed_batch(*shard.execution, prepared->train->graph(), shard.batch));
    shard.execution->on_notice([this](int notice, std::shared_ptr<Event>) { on_notice(notice); });
    shards.push_back(std::move(shard));
  }
  return {};
}

Status Replica::Parts::make_updates() {
  TR_ASSIGN_OR_RETURN(learning_rate, allocate_zeros(device(), {DType::kF32, Shape{}}));
  for (std::size_t i = 0; i < plan().buckets.size(); ++i) {
    const plan::Bucket& bucket = plan().buckets[i];
    TR_ASSIGN_OR_RETURN(auto update,
                        exec::make_execution(rt, prepared->updates[i],
                                             {.variables = &variables, .bindings = {}, .host_ops = {}}));
    TR_RETURN_IF_ERROR(update->feed("lr", learning_rate));
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      TR_ASSIGN_OR_RETURN(const Tensor w, variables.get(bucket.parameters[p]));
      const Tensor grad(shards[0].buckets[i].buffer(), w.type(),
                        static_cast<std::size_t>(bucket.offsets[p]) * 4);
      TR_RETURN_IF_ERROR(update->feed("grad:" + bucket.parameters[p], grad));
    }
    updates.push_back(std::move(update));
  }
  return {};
}

std::int64_t Replica::Parts::num_eval_batches() const {
  return (data->num_test + prepared->eval_batch - 1) / prepared->eval_batch;
}

Status Replica::Parts::make_evals() {
  const int slots = std::max(1, rt.compute_threads() / std::max(1, plan().shard_threads));
  for (int i = 0; i < slots; ++i) {
    TR_ASSIGN_OR_RETURN(
        auto execution,
        exec::make_execution(rt, prepared->eval, {.variables = &variables, .bindings = {}, .host_ops = {}}));
    TR_ASSIGN_OR_RETURN(BatchTensors batch,
                        allocate_batch(device(), data->sample_shape, prepared->eval_batch));
    TR_RETURN_IF_ERROR(feed_batch(*execution, prepared->eval->graph(), batch));
    evals.push_back(std::move(execution));
    eval_batches.push_back(std::move(batch));
  }
  TR_ASSIGN_OR_RETURN(eval_results, allocate_zeros(device(), {DType::kF32, {2 * num_eval_batches()}}));
  return {};
}

void Replica::Parts::on_notice(int notice) {
  const auto bucket = static_cast<std::size_t>(prepared->bucket_of_notice[static_cast<std::size_t>(notice)]);
  if (--pending[bucket] == 0) rt.spawn(run_bucket(bucket));
}

// Agree on one bucket, then apply it: backward of earlier layers may still run, but nobody reads these
// parameters.
Task<void> Replica::Parts::run_bucket(std::size_t bucket) {
  const plan::Bucket& planned = plan().buckets[bucket];
  agree::BucketExchange exchange;
  exchange.step = static_cast<std::uint32_t>(now.step);
  exchange.slot = planned.slot;
  exchange.collective = planned.collective;
  exchange.owners = plan().owners;
  exchange.num_shards = plan().logical_shards;
  for (const Shard& shard : shards) exchange.shard_gradients.push_back(shard.buckets[bucket]);
  Status status = co_await agreement->exchange(std::move(exchange));
  if (status.ok()) status = co_await updates[bucket]->run();
  if (!status.ok() && bucket_failure.ok()) bucket_failure = status;
  if (--buckets_left == 0) buckets_done->set(true);
}

void Replica::Parts::fill_shard(Shard& shard) {
  const std::int64_t count = cut.samples_in_step(now.step_in_epoch);
  const data::ShardSamples samples = data::samples_of_shard(cut, static_cast<std::uint64_t>(job.train.seed),
                                                            now.epoch, now.step_in_epoch, shard.index);
  const float weight = count > 0 ? 1.0F / static_cast<float>(count) : 0.0F;
  data::fill_batch(*data, samples.ids, weight, shard.batch.images.values<float>(),
                   shard.batch.labels.values<std::int32_t>(), shard.batch.weights.values<float>());
  std::copy(samples.ids.begin(), samples.ids.end(), shard.batch.sample_ids.values<std::int64_t>().begin());
  *shard.batch.key.data<std::int64_t>() = static_cast<std::int64_t>(dropout_key);
  *shard.batch.step.data<std::int64_t>() = now.step;
  // The last bucket's metrics: loss and correct are written by the graph, the wish to stop here, by the first
  // shard.
  const plan::Bucket& last = plan().buckets.back();
  const bool stop = now.stop_wanted && &shard == &shards.front();
  shard.buckets.back().data<float>()[last.metrics_offset + 2] = stop ? 1.0F : 0.0F;
}

Task<Status> Replica::Parts::run_shard(Shard& shard) {
  co_await rt.compute(
      batch_cost(shard.batch.images), [&](runtime::ComputeContext&) { fill_shard(shard); }, 1, "fill batch");
  co_return co_await shard.execution->run();
}

// Evaluation batches of this rank, one slot's share of them; results land at their own place in eval_results.
Task<Status> Replica::Parts::run_eval(std::size_t slot) {
  const std::int64_t total = num_eval_batches();
  const std::int64_t begin = total * group.rank() / group.world(),
                     end = total * (group.rank() + 1) / group.world();
  BatchTensors& batch = eval_batches[slot];
  for (std::int64_t i = begin + static_cast<std::int64_t>(slot); i < end;
       i += static_cast<std::int64_t>(evals.size())) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(prepared->eval_batch), -1);
    for (std::size_t j = 0; j < ids.size(); ++j) {
      const std::int64_t at = i * prepared->eval_batch + static_cast<std::int64_t>(j);
      if (at < data->num_test) ids[j] = data->num_train + at;
    }
    co_await rt.compute(
        batch_cost(batch.images),
        [&](runtime::ComputeContext&) {
          data::fill_batch(*data, ids, 1.0F, batch.images.values<float>(),
                           batch.labels.values<std::int32_t>(), batch.weights.values<float>());
        },
        1, "fill batch");
    TR_CO_RETURN_IF_ERROR(co_await evals[slot]->run());
    if (rt.is_phantom()) continue;
    TR_CO_ASSIGN_OR_RETURN(const Tensor loss, evals[slot]->fetch("loss"));
    TR_CO_ASSIGN_OR_RETURN(const Tensor correct, evals[slot]->fetch("correct"));
    eval_results.data<float>()[2 * i] = *loss.data<float>();
    eval_results.data<float>()[2 * i + 1] = *correct.data<float>();
  }
  co_return Status();
}

io::NamedTensors Replica::Parts::named(bool with_state) const {
  io::NamedTensors out;
  for (const model::Parameter& p : prepared->parameters) {
    out.emplace_back(p.name, *variables.get(p.name));
    if (with_state && job.train.optimizer.kind == "momentum")
      out.emplace_back(velocity_name(p.name), *variables.get(velocity_name(p.name)));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

Replica::Replica(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Replica::~Replica() = default;

Result<std::unique_ptr<Replica>> Replica::make(runtime::Runtime& rt, comm::Group& group, const Job& job,
                                               std::shared_ptr<const Prepared> prepared,
                                               std::shared_ptr<const data::Dataset> data) {
  auto parts = std::make_unique<Parts>(rt, group, job, std::move(prepared), std::move(data));
  const plan::Plan& plan = parts->plan();
  parts->cut = {parts->data->num_train, job.train.batch, plan.logical_shards};
  parts->dropout_key = mix_key(static_cast<std::uint64_t>(job.train.seed), hash_text("dropout"));
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(plan.agreement));
  parts->agreement = rule->make(rt, group);
  TR_RETURN_IF_ERROR(parts->make_variables());
  TR_RETURN_IF_ERROR(parts->make_shards());
  TR_RETURN_IF_ERROR(parts->make_updates());
  TR_RETURN_IF_ERROR(parts->make_evals());
  return std::unique_ptr<Replica>(new Replica(std::move(parts)));
}

void Replica::initialise(std::uint64_t seed) {
  if (parts_->rt.is_phantom()) return;
  for (const model::Parameter& p : parts_->prepared->parameters)
    model::initialise(p, seed, parts_->variables.get(p.name)->values<float>());
}

Task<Result<StepOutput>> Replica::run_step(StepInput input) {
  Parts& p = *parts_;
  p.now = input;
  p.bucket_failure = {};
  p.buckets_left = p.plan().buckets.size();
  p.buckets_done = std::make_unique<runtime::OneShot<bool>>(p.rt);
  p.pending = p.prepared->notices_of_bucket;
  for (int& n : p.pending) n *= static_cast<int>(p.shards.size());
  if (!p.rt.is_phantom()) *p.learning_rate.data<float>() = input.learning_rate;

  const TimeNs started = p.rt.now();
  std::vector<Task<Status>> running;
  for (Shard& shard : p.shards) running.push_back(p.run_shard(shard));
  Status status = co_await runtime::when_all(p.rt, std::move(running));
  if (!status.ok()) {
    // Exchanges that began use this memory: they end with the group's verdict. The others never begin.
    p.group.fail("training step", status.message());
    for (const int notices_left : p.pending)
      if (notices_left > 0) --p.buckets_left;
    if (p.buckets_left > 0) co_await p.buckets_done->wait_until(kForever);
    co_return status;
  }
  const TimeNs computed = p.rt.now();
  // Bounded by the group: a lost, silent or stuck rank ends every exchange with its verdict.
  co_await p.buckets_done->wait_until(kForever);
  if (!p.bucket_failure.ok()) co_return p.bucket_failure;

  StepOutput out;
  out.compute_ns = computed - started;
  out.exposed_ns = p.rt.now() - computed;
  if (!p.rt.is_phantom()) {
    const float* metrics = p.shards[0].buckets.back().data<float>() + p.plan().buckets.back().metrics_offset;
    out.loss = metrics[0];
    out.correct = metrics[1];
    out.stop = metrics[2] > 0;
  }
  co_return out;
}

Task<Result<EvalOutput>> Replica::evaluate(std::int64_t step) {
  Parts& p = *parts_;
  if (p.data->num_test == 0) co_return EvalOutput{};
  if (p.eval_results.raw() != nullptr)
    std::memset(p.eval_results.raw(), 0, p.eval_results.type().num_bytes());
  std::vector<Task<Status>> running;
  for (std::size_t i = 0; i < p.evals.size(); ++i) running.push_back(p.run_eval(i));
  Status status = co_await runtime::when_all(p.rt, std::move(running));
  if (!status.ok()) co_return status;
  // Every entry is written by one rank and zero elsewhere, so any order of summation gives the same bits.
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = kSlotEval;
  call.label = "evaluation";
  call.algorithm = "ring";
  status = co_await p.group.allreduce(std::move(call), p.eval_results);
  if (!status.ok()) co_return status;
  EvalOutput out;
  if (p.rt.is_phantom()) co_return out;
  for (std::int64_t i = 0; i < p.num_eval_batches(); ++i) {
    out.loss += p.eval_results.data<float>()[2 * i];
    out.accuracy += p.eval_results.data<float>()[2 * i + 1];
  }
  out.loss /= static_cast<double>(p.data->num_test);
  out.accuracy /= static_cast<double>(p.data->num_test);
  co_return out;
}

io::NamedTensors Replica::parameters() const { return parts_->named(false); }
io::NamedTensors Replica::state() const { return parts_->named(true); }
const data::BatchCut& Replica::cut() const { return parts_->cut; }

}  // namespace trireme::train
