#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::comm::testing {
namespace {

constexpr TimeNs kVirtualLimit = 600 * kSecond;

// Aborts when it is not disarmed in time.
class Watchdog {
 public:
  explicit Watchdog(std::function<std::string()> explain)
      : thread_([this, explain = std::move(explain)] {
          std::unique_lock lock(mutex_);
          if (wake_.wait_for(lock, std::chrono::seconds(60), [this] { return disarmed_; })) return;
          std::fprintf(stderr, "watchdog: ranks still wait after 60 s\n%s", explain().c_str());
          std::abort();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      disarmed_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool disarmed_ = false;
  std::thread thread_;
};

runtime::Task<void> rank_main(runtime::Runtime& rt, int rank, const RankOptions& options, const Body& body,
                              std::atomic<bool>* done) {
  co_await run_rank(rt, rank, options, body);
  *done = true;
}

}  // namespace

runtime::Task<void> run_rank(runtime::Runtime& rt, int rank, const RankOptions& options, const Body& body) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = options.world;
  connect.epoch = options.group.epoch;
  connect.rendezvous = options.rendezvous;
  connect.ring_bytes = options.ring_bytes;
  if (rt.is_virtual()) {  // tcp
    connect.coordinator = "machine-0:29500";
    connect.insecure = true;
  }
  auto transport = co_await net::connect_transport(rt, options.transport, connect);
  EXPECT_TRUE(transport.ok()) << transport.status().to_string();
  if (!transport.ok()) co_return;
  std::unique_ptr<net::Transport> inner = std::move(transport).value();
  if (options.sends != nullptr)
    inner =
        net::make_recording_transport(std::move(inner), &(*options.sends)[static_cast<std::size_t>(rank)]);
  if (options.wrap) inner = options.wrap(rt, std::move(inner));
  auto group = make_group(rt, std::move(inner), options.group);
  EXPECT_TRUE(group.ok());
  co_await body(rt, **group);
}

void run_on_threads(const RankOptions& options, const Body& body) {
  const auto fabric = runtime::make_fabric();
  if (options.sends != nullptr) options.sends->assign(static_cast<std::size_t>(options.world), {});
  std::vector<std::atomic<bool>> done(static_cast<std::size_t>(options.world));
  const Watchdog watchdog([&] {
    std::string text;
    for (std::size_t r = 0; r < done.size(); ++r)
      if (!done[r]) text += "  rank " + std::to_string(r) + " has not ended\n";
    return text;
  });
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < options.world; ++r) {
    bodies.emplace_back([&, r] {
      runtime::RealOptions real;
      real.name = "rank " + std::to_string(r);
      real.compute_threads = 1;
      real.spin_ns = 0;
      real.fabric = fabric;
      const auto rt = runtime::make_real_runtime(real);
      rt->run(rank_main(*rt, r, options, body, &done[static_cast<std::size_t>(r)]));
    });
  }
  runtime::run_in_threads(std::move(bodies));
}

VirtualResult run_virtual(const RankOptions& options, runtime::WorldSpec spec, const Body& body) {
  const bool one_machine = options.transport == "shm";
  if (spec.topology.machines.empty())
    spec.topology = cost::Topology::single_switch(one_machine ? 1 : options.world, cost::MachineModel{},
                                                  cost::LinkModel{});
  if (options.sends != nullptr) options.sends->assign(static_cast<std::size_t>(options.world), {});
  const auto world = runtime::make_virtual_world(std::move(spec));
  std::vector<runtime::Runtime*> ranks;
  for (int r = 0; r < options.world; ++r)
    ranks.push_back(&world->add_runtime(one_machine ? 0 : r, "rank " + std::to_string(r)));
  for (int r = 0; r < options.world; ++r)
    world->start(*ranks[static_cast<std::size_t>(r)],
                 run_rank(*ranks[static_cast<std::size_t>(r)], r, options, body));
  VirtualResult result;
  result.report = world->run(kVirtualLimit);
  for (const runtime::Runtime* rt : ranks) result.dead.push_back(world->is_dead(*rt));
  return result;
}

void expect_finished(const VirtualResult& result) {
  EXPECT_TRUE(result.report.finished)
      << "after " << format_duration(result.report.end_time) << " of virtual time: " << result.report.stuck;
}

Tensor tensor_of(const std::vector<float>& values) {
  return Tensor::from<float>(values, Shape{static_cast<std::int64_t>(values.size())});
}
Tensor phantom_of(std::int64_t count) {
  const TensorType type{DType::kF32, Shape{count}};
  return Tensor(Buffer::phantom(cpu_device(), type.num_bytes()), type);
}
std::vector<float> values_of(const Tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

}  // namespace trireme::comm::testing
