#include "trireme/data/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/order.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::data {
namespace {

using runtime::Runtime;
using runtime::Task;
using ::testing::HasSubstr;

constexpr TimeNs kFill = 3 * kMilli;

class Machine {
 public:
  explicit Machine(int cores = 2) {
    cost::MachineModel machine;
    machine.cores = cores;
    machine.flops_per_second_per_core = 1e9;
    machine.op_overhead_ns = 0;
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, machine, {});
    world_ = runtime::make_virtual_world(spec);
    rt_ = &world_->add_runtime(0, "rank");
  }
  Runtime& rt() { return *rt_; }
  void run(Task<void> task) {
    world_->start(*rt_, std::move(task));
    const auto report = world_->run(kForever);
    ASSERT_TRUE(report.finished) << report.stuck;
  }

 private:
  std::unique_ptr<runtime::VirtualWorld> world_;
  Runtime* rt_;
};

cost::OpCost lasting(TimeNs time) { return {.flops = static_cast<double>(time), .bytes = 0}; }

// What producers and the consumer saw.
struct Log {
  std::vector<std::int64_t> slots;  // the position each slot holds
  std::vector<std::int64_t> taken;
  int held = 0, most_held = 0;  // begun and not given back
  std::int64_t begun = 0;
  TimeNs time = 0;
  PrefetchCounters counters;
};

Task<Status> produce(Runtime& rt, std::shared_ptr<Log> log, std::int64_t position, int slot, TimeNs time) {
  ++log->begun;
  log->most_held = std::max(log->most_held, ++log->held);
  co_await rt.compute(lasting(time), [&](runtime::ComputeContext&) {
    log->slots[static_cast<std::size_t>(slot)] = position;
  });
  co_return Status();
}

Task<void> consume(Runtime& rt, std::shared_ptr<Log> log, int depth, std::int64_t count, TimeNs fill,
                   TimeNs step) {
  log->slots.assign(static_cast<std::size_t>(depth), -1);
  const TimeNs begin = rt.now();
  Prefetcher::Producer producer = [&rt, log, fill](std::int64_t position, int slot) {
    return produce(rt, log, position, slot, fill);
  };
  Prefetcher ahead(rt, depth, 0, count, std::move(producer));
  for (std::int64_t i = 0; i < count; ++i) {
    Result<int> slot = co_await ahead.next(kForever);
    EXPECT_TRUE(slot.ok()) << slot.status().to_string();
    log->taken.push_back(log->slots[static_cast<std::size_t>(*slot)]);
    co_await rt.compute(lasting(step), [](runtime::ComputeContext&) {});
    --log->held;
    ahead.release();
  }
  log->time = rt.now() - begin;
  log->counters = ahead.counters();
  const Result<int> after = co_await ahead.next(kForever);
  EXPECT_EQ(after.status().code(), Code::kNotFound);
}

Log consumed(int depth, std::int64_t count, TimeNs fill, TimeNs step, int cores = 2) {
  Machine machine(cores);
  auto log = std::make_shared<Log>();
  machine.run(consume(machine.rt(), log, depth, count, fill, step));
  return *log;
}

std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

TEST(Prefetch, OverlapsMakingBatchesWithUsingThem) {
  const Log log = consumed(2, 50, kFill, 5 * kMilli);
  EXPECT_EQ(log.taken, counting(50));
  EXPECT_NEAR(to_seconds(log.time), to_seconds(kFill + 50 * 5 * kMilli), 1e-4)
      << "only the first batch is waited for";
  EXPECT_EQ(log.counters.batches, 50);
  EXPECT_EQ(log.counters.waits, 1);
  EXPECT_NEAR(to_seconds(log.counters.waited_ns), to_seconds(kFill), 1e-4);
}

TEST(Prefetch, AConsumerFasterThanItsDataWaitsForTheDifference) {
  const Log log = consumed(2, 50, 5 * kMilli, 1 * kMilli);
  EXPECT_EQ(log.taken, counting(50));
  // Two cores share 50 x 6 ms of work; what is not its own is waiting.
  EXPECT_EQ(log.counters.waited_ns, log.time - 50 * kMilli);
  EXPECT_GE(log.time, 50 * 3 * kMilli);
  EXPECT_LE(log.time, 50 * 6 * kMilli);
  EXPECT_GT(log.counters.waits, 20);
}

TEST(Prefetch, WithOneSlotNothingOverlaps) {
  const Log log = consumed(1, 20, kFill, kFill);
  EXPECT_EQ(log.time, 20 * 2 * kFill);
  EXPECT_EQ(log.counters.waited_ns, 20 * kFill);
  EXPECT_EQ(log.most_held, 1);
}

TEST(Prefetch, NeverHoldsMoreThanItsDepth) {
  for (const int depth : {1, 2, 3, 8}) {
    const Log log = consumed(depth, 40, kFill / 10, kFill, 16);
    EXPECT_EQ(log.most_held, depth) << "as many as allowed, and no more";
    EXPECT_EQ(log.begun, 40) << "none beyond the end";
    EXPECT_EQ(log.taken, counting(40));
  }
}

// Later batches are quicker than earlier ones.
Task<void> consume_uneven(Runtime& rt, std::shared_ptr<Log> log) {
  log->slots.assign(4, -1);
  Prefetcher::Producer producer = [&rt, log](std::int64_t position, int slot) {
    return produce(rt, log, position, slot, position % 4 == 0 ? 20 * kMilli : kMilli);
  };
  Prefetcher ahead(rt, 4, 7, 30, std::move(producer));
  for (std::int64_t i = 7; i < 30; ++i) {
    const Result<int> slot = co_await ahead.next(kForever);
    log->taken.push_back(log->slots[static_cast<std::size_t>(*slot)]);
    ahead.release();
  }
}

TEST(Prefetch, KeepsTheOrderWhateverIsReadyFirst) {
  Machine machine(8);
  auto log = std::make_shared<Log>();
  machine.run(consume_uneven(machine.rt(), log));
  std::vector<std::int64_t> expected = counting(30);
  expected.erase(expected.begin(), expected.begin() + 7);
  EXPECT_EQ(log->taken, expected);
}

Task<Status> fail_at_two(Runtime& rt, std::int64_t position) {
  co_await rt.sleep_for(kMilli);
  if (position == 2) co_return error(Code::kCorrupt, "[data] file 2 is damaged");
  co_return Status();
}

Task<void> consume_failing(Runtime& rt) {
  Prefetcher::Producer producer = [&rt](std::int64_t position, int) { return fail_at_two(rt, position); };
  Prefetcher ahead(rt, 4, 0, 10, std::move(producer));
  for (std::int64_t i = 0; i < 4; ++i) {
    const Result<int> slot = co_await ahead.next(kForever);
    EXPECT_EQ(slot.ok(), i != 2);
    if (i == 2) {
      EXPECT_THAT(slot.status().message(), HasSubstr("file 2 is damaged"));
    }
  }
  const Result<int> none = co_await ahead.next(kForever);
  EXPECT_THAT(none.status().message(), HasSubstr("all 4 prefetched batches are in use"));
  ahead.release();
  const Result<int> late = co_await ahead.next(rt.now() + kMilli / 2);
  EXPECT_EQ(late.status().code(), Code::kDeadline);
  EXPECT_EQ(ahead.counters().waited_ns, kMilli + kMilli / 2);
  const Result<int> there = co_await ahead.next(kForever);
  EXPECT_EQ(*there, 0) << "a deadline loses nothing";
}

TEST(Prefetch, FailuresAndDeadlinesReachTheConsumerAtTheirPlace) {
  Machine machine;
  machine.run(consume_failing(machine.rt()));
}

Task<void> leave_early(Runtime& rt, std::shared_ptr<Log> log) {
  log->slots.assign(3, -1);
  {
    Prefetcher::Producer producer = [&rt, log](std::int64_t position, int slot) {
      return produce(rt, log, position, slot, kFill);
    };
    Prefetcher ahead(rt, 3, 0, 100, std::move(producer));
    const Result<int> slot = co_await ahead.next(kForever);
    EXPECT_TRUE(slot.ok());
  }
  co_await rt.sleep_for(kSecond);
}

TEST(Prefetch, ABatchUnderWayOutlivesItsPrefetcherAndNoneFollows) {
  Machine machine(1);
  auto log = std::make_shared<Log>();
  machine.run(leave_early(machine.rt(), log));
  EXPECT_EQ(log->begun, 3);
  EXPECT_EQ(log->slots, (std::vector<std::int64_t>{0, 1, 2}));
}

// ---- Batches of a set, as training asks for them
struct Batches {
  std::vector<std::vector<float>> features;
  std::vector<std::vector<std::int32_t>> labels;
};

struct SlotMemory {
  std::vector<float> features, weights;
  std::vector<std::int32_t> labels;
};

std::shared_ptr<const Dataset> numbers() {
  auto set = std::make_shared<Dataset>();
  set->sample_shape = {1, 2, 3};
  set->num_train = 20;
  set->num_classes = 20;
  set->pixels.resize(120);
  for (std::size_t i = 0; i < 120; ++i) set->pixels.writable()[i] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 20; ++i) set->labels.push_back(i);
  set->augment.flip = true;
  set->augment.shift = 1;
  return set;
}

Task<Status> fill_slot(Runtime& rt, std::shared_ptr<const Dataset> set,
                       std::shared_ptr<std::vector<SlotMemory>> memory, std::int64_t position, int slot) {
  const BatchCut cut{20, 8, 1};
  const std::int64_t epoch = position / 3;
  PlannedBatch planned;
  planned.ids = samples_of_shard(cut, 5, epoch, position % 3, 0).ids;
  planned.options = {.weight = 1, .augment = true, .seed = 5, .epoch = epoch};
  SlotMemory& m = (*memory)[static_cast<std::size_t>(slot)];
  const BatchView view{m.features, {}, m.labels, m.weights};
  co_await fill_on_pool(rt, set, planned, view);
  co_return Status();
}

Task<void> collect(Runtime& rt, int depth, Batches& out) {
  auto set = numbers();
  auto memory = std::make_shared<std::vector<SlotMemory>>(static_cast<std::size_t>(depth));
  for (SlotMemory& m : *memory)
    m = {std::vector<float>(48), std::vector<float>(8), std::vector<std::int32_t>(8)};
  Prefetcher::Producer producer = [&rt, set, memory](std::int64_t position, int slot) {
    return fill_slot(rt, set, memory, position, slot);
  };
  Prefetcher ahead(rt, depth, 0, 9, std::move(producer));
  for (int i = 0; i < 9; ++i) {
    const Result<int> slot = co_await ahead.next(kForever);
    out.features.push_back((*memory)[static_cast<std::size_t>(*slot)].features);
    out.labels.push_back((*memory)[static_cast<std::size_t>(*slot)].labels);
    ahead.release();
  }
}

TEST(Prefetch, BatchesAreTheSameForAnyDepthMachineAndNumberOfThreads) {
  Batches expected;
  Machine one;
  one.run(collect(one.rt(), 1, expected));
  std::vector<std::int32_t> epoch;
  for (int i = 0; i < 3; ++i)
    epoch.insert(epoch.end(), expected.labels[static_cast<std::size_t>(i)].begin(),
                 expected.labels[static_cast<std::size_t>(i)].end());
  epoch.resize(20);
  std::sort(epoch.begin(), epoch.end());
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(epoch[static_cast<std::size_t>(i)], i) << "every sample once per epoch";
  EXPECT_NE(expected.features[0], expected.features[3]);
  for (const int depth : {2, 5}) {
    Batches got;
    Machine machine(4);
    machine.run(collect(machine.rt(), depth, got));
    EXPECT_EQ(got.features, expected.features);
    runtime::RealOptions options;
    options.compute_threads = depth;
    options.spin_ns = 0;
    const auto real = runtime::make_real_runtime(options);
    Batches on_real;
    real->run(collect(*real, depth, on_real));
    EXPECT_EQ(on_real.features, expected.features);
    EXPECT_EQ(on_real.labels, expected.labels);
  }
}

}  // namespace
}  // namespace trireme::data
