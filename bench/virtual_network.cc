// How many message events a virtual world turns over per second, by topology. An event is an arrival of a
// message at a hop, or its delivery. Each rank keeps four phantom packets in flight to ranks that walk over
// the world; links are quick and long, so that the queue of events is as deep as in a large collective.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "trireme/cost/topology_json.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

class Talker {
 public:
  Talker(Runtime& rt, int rank, int world_size, int rounds)
      : rank_(rank),
        world_size_(world_size),
        left_(rounds),
        box_(std::move(rt.network().open_endpoint(rank)).value()) {
    box_->set_handlers([this](int, const Packet&) { next(); }, [](int) {});
  }
  void next() {
    if (left_ == 0) return;
    --left_;
    hop_ = hop_ * 5 % world_size_;
    box_->send((rank_ + hop_ + 1) % world_size_, {.header = {1}, .payload = nullptr, .bytes = 4096});
  }

 private:
  int rank_, world_size_, left_, hop_ = 1;
  std::unique_ptr<FabricEndpoint> box_;
};

void messages(benchmark::State& state, const char* topology) {
  constexpr int kRanks = 1024, kRounds = 256;
  std::uint64_t events = 0, sent = 0;
  for (auto unused : state) {
    state.PauseTiming();
    WorldSpec spec;
    spec.topology = cost::topology_from_json(Json{{"topology", topology}}, kRanks).value();
    spec.phantom = true;
    auto world = make_virtual_world(spec);
    std::vector<std::unique_ptr<Talker>> talkers;
    for (int i = 0; i < kRanks; ++i)
      talkers.push_back(std::make_unique<Talker>(world->add_runtime(i, "rank"), i, kRanks, kRounds));
    for (auto& talker : talkers)
      for (int i = 0; i < 4; ++i) talker->next();
    state.ResumeTiming();
    const WorldReport report = world->run(kForever);
    state.PauseTiming();
    events += report.num_events;
    sent += report.num_messages;
    talkers.clear();
    world.reset();
    state.ResumeTiming();
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["messages/s"] = benchmark::Counter(static_cast<double>(sent), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(messages, single_switch, "single-switch")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(messages, fat_tree, "fat-tree")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(messages, two_level, "two-level")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(messages, torus, "torus")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme::runtime

BENCHMARK_MAIN();
