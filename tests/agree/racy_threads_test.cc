// Weights that threads change without locks: for ThreadSanitizer, which is to find nothing else, and for the
// minimum, which is found all the same. Gradients are computed and applied by plain reads and writes on the
// compute pool, as kernels do.
#include <gtest/gtest.h>

#include "tests/agree/fake_servers.h"
#include "trireme/agree/agree.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr std::int64_t kElems = 4096;
constexpr float kStart = 8, kMinimum = 3, kRate = 0.1F;

// The gradient of every element: slope (x - minimum) + constant.
struct Gradient {
  float slope = 1, constant = 0;
};

Tensor vector_of(float value) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {kElems}});
  for (float& x : t.values<float>()) x = value;
  return t;
}

// As the executor runs a kernel.
Task<void> on_pool(Runtime& rt, std::function<void()> kernel) {
  const cost::OpCost work{.flops = kElems, .bytes = 8.0 * kElems};
  runtime::ComputeFn fn = [kernel = std::move(kernel)](runtime::ComputeContext&) { kernel(); };
  co_await rt.compute(work, std::move(fn), 1, "kernel");
}

Task<Status> take_steps(Runtime& rt, Agreement& rule, Tensor weights, bool updates_here, int steps,
                        Gradient of = {}) {
  const Tensor gradient = vector_of(0);
  for (int step = 0; step < steps; ++step) {
    StepInfo info;
    info.step = step;
    info.learning_rate = kRate;
    TR_CO_RETURN_IF_ERROR(co_await rule.begin_step(info));
    std::function<void()> backward = [gradient, weights, of] {
      for (std::int64_t i = 0; i < kElems; ++i)
        gradient.data<float>()[i] = of.slope * (weights.data<float>()[i] - kMinimum) + of.constant;
    };
    co_await on_pool(rt, std::move(backward));
    BucketExchange bucket;
    bucket.gradient = gradient;
    TR_CO_RETURN_IF_ERROR(co_await rule.exchange(std::move(bucket)));
    std::function<void()> update = [gradient, weights] {
      for (std::int64_t i = 0; i < kElems; ++i) weights.data<float>()[i] -= kRate * gradient.data<float>()[i];
    };
    if (updates_here) co_await on_pool(rt, std::move(update));
    TR_CO_RETURN_IF_ERROR(co_await rule.end_step(info));
  }
  co_return Status();
}

void expect_at_minimum(const Tensor& weights) {
  double furthest = 0;
  for (const float x : weights.values<float>())
    furthest = std::max(furthest, std::abs(static_cast<double>(x) - kMinimum));
  EXPECT_LT(furthest, 0.5);
}

Task<Status> hogwild_rank(Runtime& rt, int rank, int world, Tensor weights) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = world;
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  if (!transport.ok()) co_return transport.status();
  comm::GroupOptions options;
  TR_CO_ASSIGN_OR_RETURN(const std::unique_ptr<comm::Group> group,
                         comm::make_group(rt, std::move(*transport), options));
  RuleContext context;
  context.rt = &rt;
  context.workers = group.get();
  context.mail = &group->mailbox();
  context.worker = rank;
  context.num_workers = world;
  context.weights = {weights};
  const std::unique_ptr<Agreement> rule = (*find_agreement("hogwild"))->make(context);
  TR_CO_RETURN_IF_ERROR(co_await take_steps(rt, *rule, weights, /*updates_here=*/true, 150));
  const std::vector<Tensor> model{vector_of(0)};
  TR_CO_RETURN_IF_ERROR(co_await rule->settle(model));
  expect_at_minimum(model[0]);
  co_return co_await group->leave();
}

TEST(RacyThreads, HogwildWorkersFindTheMinimum) {
  constexpr int kWorkers = 3;
  const auto fabric = runtime::make_fabric();
  const Tensor weights = vector_of(kStart);
  std::vector<Status> ended(kWorkers, Status(Code::kInternal, "not ended"));
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < kWorkers; ++rank)
    bodies.emplace_back([&, rank] {
      runtime::RealOptions options;
      options.name = fmt::format("rank {}", rank);
      options.compute_threads = 2;
      options.spin_ns = 0;
      options.fabric = fabric;
      const auto rt = runtime::make_real_runtime(options);
      const auto main = [&]() -> Task<void> {
        ended[static_cast<std::size_t>(rank)] = co_await hogwild_rank(*rt, rank, kWorkers, weights);
      };
      rt->run(main());
    });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& status : ended) EXPECT_TRUE(status.ok()) << status.to_string();
}

// The servers' model after 4 replicas with `steps` steps each.
std::vector<float> run_local_replicas(int steps, Gradient of) {
  constexpr int kReplicas = 4;
  testing::FakeServers servers;
  const auto client = servers.client();
  runtime::RealOptions options;
  options.compute_threads = kReplicas;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  const Tensor weights = vector_of(kStart);
  RuleContext context;
  context.rt = rt.get();
  context.servers = client.get();
  context.options.own.set("local_replicas", kReplicas);
  context.options.own.set("push_steps", 3);
  context.options.own.set("fetch_steps", 3);
  context.weights = {weights};
  std::vector<std::unique_ptr<Agreement>> rules;
  rules.push_back((*find_agreement("downpour"))->make(context));
  while (static_cast<int>(rules.size()) < kReplicas) rules.push_back(rules[0]->for_local_replica());
  Status ended;
  const auto main = [&]() -> Task<void> {
    ended = co_await client->init(0, weights);
    std::vector<Task<Status>> replicas;
    for (const auto& rule : rules)
      replicas.push_back(take_steps(*rt, *rule, weights, /*updates_here=*/false, steps, of));
    if (ended.ok()) ended = co_await runtime::when_all(*rt, std::move(replicas));
    if (ended.ok()) ended = co_await rules[0]->finish();
  };
  rt->run(main());
  EXPECT_TRUE(ended.ok()) << ended.to_string();
  EXPECT_LE(servers.updates[0], kReplicas * steps / 3) << "three steps or more in a push";
  return servers.values[0];
}

TEST(RacyThreads, LocalReplicasFindTheMinimum) {
  for (const float x : run_local_replicas(60, {})) ASSERT_NEAR(x, kMinimum, 0.5);
}

TEST(RacyThreads, ServersGetEveryGradientOfLocalReplicas) {
  Gradient constant;
  constant.slope = 0;
  constant.constant = 1;
  for (const float x : run_local_replicas(60, constant)) ASSERT_NEAR(x, kStart - kRate * 240, 1e-3);
}

}  // namespace
}  // namespace trireme::agree
