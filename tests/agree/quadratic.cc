#include "tests/agree/quadratic.h"

#include <gtest/gtest.h>

#include <numeric>

#include "trireme/base/rng.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree::testing {
namespace {

using runtime::Runtime;
using runtime::Task;

template <typename T>
T of_worker(const std::vector<T>& values, int worker) {
  return values.size() == 1 ? values[0] : values.at(static_cast<std::size_t>(worker));
}

// One worker at work: its memory and its rule.
struct Worker {
  const QuadraticJob& job;
  QuadraticWorker& result;
  Runtime& rt;
  int number;
  std::vector<Tensor> weights, gradients, velocities, settled;  // per bucket
  std::unique_ptr<Agreement> rule;
  std::unique_ptr<server::Client> client;
  bool updates_here = true;
  int local = 0;  // number among the replicas of its worker

  Vector flat(const std::vector<Tensor>& buckets) const {
    Vector all;
    if (rt.is_phantom()) return all;
    for (const Tensor& t : buckets) {
      const auto values = t.values<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

std::vector<Tensor> make_buckets(const QuadraticJob& job, const Runtime& rt, const Vector& values) {
  std::vector<Tensor> buckets;
  std::size_t at = 0;
  for (const std::int64_t n : job.bucket_elems) {
    Tensor t = *Tensor::allocate(rt.is_phantom() ? phantom_device() : cpu_device(), {DType::kF32, Shape{n}});
    if (!rt.is_phantom())
      for (float& x : t.values<float>()) x = values.size() == 1 ? values[0] : values.at(at++);
    buckets.push_back(std::move(t));
  }
  return buckets;
}

void compute_gradients(Worker& w, std::int64_t step) {
  if (w.rt.is_phantom()) return;
  const QuadraticJob& job = w.job;
  const float a = of_worker(job.a, w.number), b = of_worker(job.b, w.number);
  std::size_t elem = 0;
  for (std::size_t bucket = 0; bucket < w.weights.size(); ++bucket) {
    const auto x = w.weights[bucket].values<float>();
    const auto g = w.gradients[bucket].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i, ++elem)
      g[i] = job.gradient ? job.gradient(GradientAt{w.number, step, elem, x[i]}) : a * (x[i] - b);
  }
}

void apply(Worker& w, std::size_t bucket, const Tensor& gradient) {
  if (w.rt.is_phantom()) return;
  const auto x = w.weights[bucket].values<float>();
  const auto v = w.velocities[bucket].values<float>();
  const auto g = gradient.values<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    v[i] = w.job.momentum * v[i] + g[i];
    x[i] -= w.job.learning_rate * v[i];
  }
}

Task<Status> exchange_bucket(Worker& w, std::int64_t step, std::size_t bucket) {
  BucketExchange exchange;
  exchange.step = static_cast<std::uint32_t>(step);
  exchange.bucket = bucket;
  for (int r = 0; r < w.job.workers; ++r) exchange.owners.push_back({r, 1});
  exchange.gradient = w.gradients[bucket];
  const Tensor result = exchange.gradient;
  const Status status = co_await w.rule->exchange(std::move(exchange));
  if (status.ok() && w.updates_here) apply(w, bucket, result);
  co_return status;
}

Task<Status> settle(Worker& w) {
  const Status status = co_await w.rule->settle(w.settled);
  if (status.ok()) w.result.settled.push_back(w.flat(w.settled));
  co_return status;
}

Task<Status> one_step(Worker& w, std::int64_t step) {
  StepInfo info;
  info.step = step;
  info.learning_rate = w.job.learning_rate;
  TR_CO_RETURN_IF_ERROR(co_await w.rule->begin_step(info));
  compute_gradients(w, step);
  co_await w.rt.sleep_for(of_worker(w.job.compute_ns, w.number) * (2 + 3 * w.local) / 2);
  std::vector<Task<Status>> exchanges;
  for (std::size_t b = 0; b < w.weights.size(); ++b) exchanges.push_back(exchange_bucket(w, step, b));
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(w.rt, std::move(exchanges)));
  TR_CO_RETURN_IF_ERROR(co_await w.rule->end_step(info));
  w.result.trace.push_back(w.flat(w.weights));
  w.result.ended.push_back(w.rt.now());
  if (w.job.after_step) w.job.after_step(w.number, step, *w.rule);
  co_return Status();
}

Task<Status> some_steps(Worker& w, std::int64_t from, std::int64_t to) {
  for (std::int64_t step = from; step < to; ++step) TR_CO_RETURN_IF_ERROR(co_await one_step(w, step));
  co_return Status();
}

// Replicas beside the first on its weights (options.local_replicas): each takes all steps, the i-th in
// 1 + 1.5 i times the time.
std::vector<Worker> local_replicas_of(Worker& w) {
  std::vector<Worker> more;
  const Vector zero{0};
  for (int i = 1; i < w.job.options.own.integer(kLocalReplicas); ++i) {
    more.push_back({w.job, w.result, w.rt, w.number, w.weights, {}, {}, {}, {}, {}, w.updates_here, i});
    more.back().gradients = make_buckets(w.job, w.rt, zero);
    more.back().velocities = make_buckets(w.job, w.rt, zero);
    more.back().rule = w.rule->for_local_replica();
  }
  return more;
}

Task<Status> train(Worker& w) {
  std::vector<Worker> more = local_replicas_of(w);
  const std::int64_t steps = w.job.steps_of.empty() ? w.job.steps : of_worker(w.job.steps_of, w.number);
  if (w.job.before_steps) w.job.before_steps(w.number, *w.rule);
  w.result.began = w.rt.now();
  const std::int64_t at_once = w.job.settle_every > 0 ? w.job.settle_every : steps;
  for (std::int64_t from = 0; from < steps; from += at_once) {
    const std::int64_t to = std::min(steps, from + at_once);
    std::vector<Task<Status>> replicas;
    replicas.push_back(some_steps(w, from, to));
    for (Worker& one : more) replicas.push_back(some_steps(one, from, to));
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(w.rt, std::move(replicas)));
    if (to < steps) TR_CO_RETURN_IF_ERROR(co_await settle(w));
  }
  TR_CO_RETURN_IF_ERROR(co_await w.rule->finish());
  co_return co_await settle(w);
}

// Two turns of encodings and of their lengths, beyond the slots of means and of settle().
comm::CodedSlots slots_of_changes(std::size_t num_buckets, std::size_t b) {
  const auto at = [&](std::size_t row) { return static_cast<std::uint16_t>(row * num_buckets + b); };
  return {.encodings = {at(2), at(4)}, .sizes = {at(3), at(5)}};
}

struct Cluster {
  const QuadraticJob& job;
  QuadraticRun& run;
  std::vector<Tensor> shared_weights;
};

Task<Status> worker_main(Runtime& rt, comm::Group& world, comm::Group& workers, Cluster& cluster) {
  const QuadraticJob& job = cluster.job;
  const int number = world.rank();
  Worker w{job, cluster.run.workers[static_cast<std::size_t>(number)], rt, number, {}, {}, {}, {}, {}, {}};
  const Vector& start = job.start_of.empty() ? job.start : job.start_of.at(static_cast<std::size_t>(number));
  w.weights = make_buckets(job, rt, start);
  if (job.shared_weights) {
    if (cluster.shared_weights.empty()) cluster.shared_weights = w.weights;
    w.weights = cluster.shared_weights;
  }
  const Vector zero{0};
  w.gradients = make_buckets(job, rt, zero);
  w.velocities = make_buckets(job, rt, zero);
  w.settled = make_buckets(job, rt, zero);
  RuleContext context;
  context.rt = &rt;
  context.workers = &workers;
  context.mail = job.letters ? &world.mailbox() : nullptr;
  if (job.make_client) w.client = job.make_client(rt, world);
  for (std::size_t b = 0; w.client && number == 0 && b < w.weights.size(); ++b)
    TR_CO_RETURN_IF_ERROR(co_await w.client->init(static_cast<std::uint32_t>(b), w.weights[b]));
  context.servers = w.client.get();
  context.worker = number;
  context.num_workers = job.workers;
  context.seed = job.seed;
  context.options = job.options;
  context.weights = w.weights;
  context.buckets.resize(w.weights.size());
  for (std::size_t b = 0; b < context.buckets.size(); ++b) {
    RuleBucket& bucket = context.buckets[b];
    bucket.mean_slot = static_cast<std::uint16_t>(b);
    bucket.settled_slot = static_cast<std::uint16_t>(context.buckets.size() + b);
    bucket.change_slots = slots_of_changes(context.buckets.size(), b);
    bucket.coding = job.options.coding;
    bucket.packing =
        codec::packing_of({{0, w.weights[b].shape().num_elems()}}, {}, bucket.coding.least_elems);
    if (b < job.parameter_elems.size()) bucket.parameter_elems = job.parameter_elems[b];
  }
  if (job.make_rule) {
    w.rule = job.make_rule(context);
    w.updates_here = job.updates_here;
  } else {
    const auto row = find_agreement(job.rule);
    if (!row.ok()) co_return row.status();
    w.rule = (*row)->make(context);
    w.updates_here = (*row)->updates_here;
  }
  if (job.letters)
    world.mailbox().on_lost([&rule = *w.rule](int peer, const Status&) { rule.on_lost(peer); });
  const Status status = co_await train(w);
  w.result.weights = w.flat(w.weights);
  w.result.report = w.rule->report();
  // What a rule answers for others ends with everybody's work, so it goes after the last one has left.
  const Status left = co_await world.leave();
  co_return status.ok() ? left : status;
}

Task<Status> rank_main(Runtime& rt, int rank, Cluster& cluster) {
  const QuadraticJob& job = cluster.job;
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = job.workers + job.servers;
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  if (!transport.ok()) co_return transport.status();
  comm::GroupOptions options;
  TR_CO_ASSIGN_OR_RETURN(const std::unique_ptr<comm::Group> world,
                         comm::make_group(rt, std::move(*transport), options));
  if (job.expendable) {
    std::vector<int> ranks(static_cast<std::size_t>(job.workers) - 1);
    std::iota(ranks.begin(), ranks.end(), 1);
    TR_CO_RETURN_IF_ERROR(world->set_expendable(ranks));
  }
  if (rank >= job.workers) {
    const std::shared_ptr<void> server =
        job.make_server ? job.make_server(rt, *world, rank - job.workers) : nullptr;
    co_return co_await world->leave();
  }
  std::unique_ptr<comm::Group> workers;
  if (job.servers > 0) {
    std::vector<int> ranks(static_cast<std::size_t>(job.workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    TR_CO_ASSIGN_OR_RETURN(workers, world->subgroup(ranks, 1));
  }
  co_return co_await worker_main(rt, *world, workers ? *workers : *world, cluster);
}

Task<void> start_rank(Runtime& rt, int rank, Cluster& cluster) {
  const Status status = co_await rank_main(rt, rank, cluster);
  if (rank < cluster.job.workers) cluster.run.workers[static_cast<std::size_t>(rank)].status = status;
}

}  // namespace

QuadraticRun run(const QuadraticJob& job) {
  QuadraticRun result;
  result.workers.resize(static_cast<std::size_t>(job.workers));
  Cluster cluster{job, result, {}};
  const int num_ranks = job.workers + job.servers;
  runtime::WorldSpec spec = job.world;
  if (spec.topology.machines.empty()) spec.topology = cost::Topology::single_switch(num_ranks, {}, job.link);
  const auto world = runtime::make_virtual_world(spec);
  std::vector<Runtime*> ranks;
  for (int r = 0; r < num_ranks; ++r) ranks.push_back(&world->add_runtime(r, "rank " + std::to_string(r)));
  for (int r = 0; r < num_ranks; ++r) {
    Runtime& rt = *ranks[static_cast<std::size_t>(r)];
    world->start(rt, start_rank(rt, r, cluster));
  }
  result.world = world->run(3600 * kSecond);
  EXPECT_TRUE(result.world.finished) << result.world.stuck;
  for (std::size_t r = 0; r < result.workers.size(); ++r) result.workers[r].dead = world->is_dead(*ranks[r]);
  return result;
}

QuadraticRun run_well(const QuadraticJob& job) {
  QuadraticRun result = run(job);
  for (std::size_t r = 0; r < result.workers.size(); ++r)
    EXPECT_TRUE(result.workers[r].status.ok())
        << "worker " << r << ": " << result.workers[r].status.to_string();
  return result;
}

QuadraticJob two_workers_from_eight(std::string rule, std::int64_t period, std::int64_t steps) {
  QuadraticJob job;
  job.rule = std::move(rule);
  job.options.own.set("period", period);
  job.steps = steps;
  job.start = {8};
  job.b = {0, 4};
  return job;
}

QuadraticJob noisy_job(std::string rule, int workers, std::uint64_t seed) {
  QuadraticJob job;
  job.rule = std::move(rule);
  job.letters = true;
  job.workers = workers;
  job.steps = 300;
  job.bucket_elems = {5, 3};
  job.learning_rate = 0.02F;
  job.seed = seed;
  job.world.seed = seed;
  job.world.latency_jitter = 3;
  job.gradient = [seed](const GradientAt& at) {
    Philox noise(mix_key(seed, static_cast<std::uint64_t>(at.worker), at.elem),
                 static_cast<std::uint64_t>(at.step));
    const auto centre = static_cast<float>(at.worker) + static_cast<float>(at.elem);
    return at.x - centre + 0.1F * noise.next_normal();
  };
  return job;
}

}  // namespace trireme::agree::testing
