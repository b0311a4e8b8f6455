// Clients and servers in virtual time, over the group's letters.
#include "trireme/server/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tests/server/cluster.h"
#include "tests/server/updates.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::server {
namespace {

using runtime::Task;
using testing::Cluster;
using testing::key_of;
using testing::tensor_of;
using testing::values_of;
using testing::Vector;
using testing::Worker;

constexpr std::int64_t kElems = 23, kSmall = 3;

// Values of very different size, so that another order of summation gives other bits.
Vector gradient(int worker, std::int64_t clock, std::uint32_t key, std::int64_t elems) {
  Philox random(static_cast<std::uint64_t>(worker * 100 + 1) + key, static_cast<std::uint64_t>(clock));
  Vector v(static_cast<std::size_t>(elems));
  for (float& x : v)
    x = std::ldexp(random.next_uniform() - 0.5F, static_cast<int>(random.next_below(16)) - 8);
  return v;
}

std::vector<Key> two_keys() { return {key_of("large", kElems), key_of("small", kSmall)}; }

// Everybody starts from what worker 0 gives.
Task<Status> start(Worker w, const std::vector<Key>& keys) {
  for (std::uint32_t k = 0; w.worker == 0 && k < keys.size(); ++k) {
    const Tensor values = tensor_of(Vector(static_cast<std::size_t>(keys[k].num_elems), 1.0F));
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(k, values));
  }
  co_return Status();
}

// One clock: pull every key, push its gradient. `seen` gets the first key's values.
Task<Status> one_clock(Worker w, const std::vector<Key>& keys, std::int64_t clock, float rate, Vector* seen,
                       Version* version = nullptr) {
  for (std::uint32_t k = 0; k < keys.size(); ++k) {
    const Tensor values = tensor_of(Vector(static_cast<std::size_t>(keys[k].num_elems)));
    const Result<Version> read = co_await w.client.pull(k, values, clock);
    if (!read.ok()) co_return read.status();
    if (k == 0 && seen != nullptr) *seen = values_of(values);
    if (k == 0 && version != nullptr) *version = *read;
    PushNote note;
    note.clock = clock;
    note.learning_rate = rate;
    note.based_on = read->updates;
    const Tensor grad = tensor_of(gradient(w.worker, clock, k, keys[k].num_elems));
    TR_CO_RETURN_IF_ERROR(co_await w.client.push(k, grad, note));
  }
  co_return co_await w.client.tick(clock);
}

Vector mean_gradient(int workers, std::int64_t clock, std::uint32_t key, std::int64_t elems) {
  Vector sum = gradient(0, clock, key, elems);
  for (int w = 1; w < workers; ++w) {
    const Vector next = gradient(w, clock, key, elems);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  for (float& x : sum) x /= static_cast<float>(workers);
  return sum;
}

TEST(Server, BspEqualsSequentialGradientDescentToTheBit) {
  constexpr std::int64_t kClocks = 4;
  for (int servers = 1; servers <= 3; ++servers)
    for (int workers = 1; workers <= 4; ++workers)
      for (const bool colocated : {false, true}) {
        Cluster c;
        c.workers = workers;
        c.servers = servers;
        c.colocated = colocated;
        c.keys = two_keys();
        c.make_update = testing::sgd;
        std::vector<std::vector<Vector>> seen(static_cast<std::size_t>(workers),
                                              std::vector<Vector>(kClocks));
        c.work = [&](Worker w) -> Task<Status> {
          TR_CO_RETURN_IF_ERROR(co_await start(w, c.keys));
          for (std::int64_t t = 0; t < kClocks; ++t) {
            co_await w.rt.sleep_for((1 + w.worker * 3) * kMilli);
            Vector* into = &seen[static_cast<std::size_t>(w.worker)][static_cast<std::size_t>(t)];
            TR_CO_RETURN_IF_ERROR(co_await one_clock(w, c.keys, t, 0.5F, into));
          }
          co_return Status();
        };
        run_well(c);
        Vector expected(kElems, 1.0F);
        for (std::int64_t t = 0; t < kClocks; ++t) {
          for (const auto& of_worker : seen)
            ASSERT_EQ(of_worker[static_cast<std::size_t>(t)], expected)
                << workers << " workers, " << servers << " servers, clock " << t;
          const Vector mean = mean_gradient(workers, t, 0, kElems);
          for (std::size_t i = 0; i < mean.size(); ++i) expected[i] -= 0.5F * mean[i];
        }
        EXPECT_EQ(c.total().dropped + c.total().repeated, 0);
        EXPECT_EQ(c.total().staleness.size(), 1U);
        EXPECT_EQ(c.total().staleness.count(0), 1U);
      }
}

// Workers that push their number + 1 to one key of whole numbers, so that sums are exact in any order.
Task<Status> push_number(Worker w, std::int64_t clock, float value, std::int64_t based_on = -1) {
  PushNote note;
  note.clock = clock;
  note.learning_rate = 1;
  note.based_on = based_on;
  TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, tensor_of(Vector(kElems, value)), note));
  co_return co_await w.client.tick(clock);
}

Task<Result<Vector>> pull_numbers(Worker w, std::int64_t clock, Version* version = nullptr) {
  const Tensor values = tensor_of(Vector(kElems, -1.0F));
  const Result<Version> read = co_await w.client.pull(0, values, clock);
  if (!read.ok()) co_return read.status();
  if (version != nullptr) *version = *read;
  co_return values_of(values);
}

Task<Status> start_at_zero(Worker w) {
  if (w.worker != 0) co_return Status();
  co_return co_await w.client.init(0, tensor_of(Vector(kElems, 0.0F)));
}

Cluster numbers(const char* consistency, int workers, int servers = 2) {
  Cluster c;
  c.workers = workers;
  c.servers = servers;
  c.keys = {key_of("w", kElems)};
  c.consistency = consistency;
  return c;
}

TEST(Server, SspLetsTheFastestAheadByItsBoundAndNoFurther) {
  Cluster c = numbers("ssp", 3);
  c.clocks.staleness = 2;
  constexpr std::int64_t kClocks = 8;
  std::int64_t largest_lead = 0;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    for (std::int64_t t = 0; t < kClocks; ++t) {
      Version version;
      TR_CO_RETURN_IF_ERROR((co_await pull_numbers(w, t, &version)).status());
      EXPECT_GE(version.oldest_clock, t - 2);
      largest_lead = std::max(largest_lead, t - version.oldest_clock);
      co_await w.rt.sleep_for((w.worker == 2 ? 20 : 1) * kMilli);
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, 1, version.updates));
    }
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(largest_lead, 2);
  EXPECT_GT(c.total().pulls_waited, 50 * kMilli);
  EXPECT_EQ(c.total().pushes, 3 * kClocks * 2);  // two slices
  EXPECT_EQ(c.state["[0,11)/w"], Vector(11, 3.0F * kClocks));
}

TEST(Server, AsyncAppliesEveryPushAndWaitsForNobody) {
  Cluster c = numbers("async", 3);
  constexpr std::int64_t kClocks = 6;
  TimeNs fast_ended = 0, slow_ended = 0;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    for (std::int64_t t = 0; t < kClocks; ++t) {
      Version version;
      TR_CO_RETURN_IF_ERROR((co_await pull_numbers(w, t, &version)).status());
      co_await w.rt.sleep_for((w.worker == 2 ? 50 : 2) * kMilli);
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, static_cast<float>(w.worker + 1), version.updates));
    }
    (w.worker == 2 ? slow_ended : fast_ended) = w.rt.now();
    co_return Status();
  };
  run_well(c);
  EXPECT_LT(fast_ended * 5, slow_ended);
  EXPECT_EQ(c.state["[0,11)/w"], Vector(11, 6.0F * kClocks));
  EXPECT_EQ(c.state["[11,23)/w"], Vector(12, 6.0F * kClocks));
  std::int64_t counted = 0;
  for (const auto& [staleness, count] : c.total().staleness) counted += count;
  EXPECT_EQ(counted, 3 * kClocks * 2);
  EXPECT_GE(c.total().staleness.rbegin()->first,
            8);  // the slow worker's push: most of the others' were before
}

TEST(Server, SoftMakesOneMeanOfEveryTwoPushes) {
  Cluster c = numbers("soft", 3, 1);
  c.clocks.gather = 2;
  constexpr std::int64_t kClocks = 4;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    for (std::int64_t t = 0; t < kClocks; ++t) {
      co_await w.rt.sleep_for((w.worker + 1) * kMilli);
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, static_cast<float>(2 * w.worker + 2)));
    }
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().updates, 3 * kClocks / 2);
  EXPECT_EQ(c.state["w"], Vector(kElems, (2 + 4 + 6) * kClocks / 2.0F));
}

TEST(Server, LateClosesAClockWithoutTheSlowestAndDropsWhatItPushes) {
  Cluster c = numbers("late", 4, 1);
  c.clocks.fraction = 0.75;
  constexpr std::int64_t kClocks = 10;
  std::int64_t jumps = 0;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    for (std::int64_t t = 0; t < kClocks; ++t) {
      Version version;
      TR_CO_RETURN_IF_ERROR((co_await pull_numbers(w, t, &version)).status());
      if (version.oldest_clock > t) ++jumps;
      t = std::max(t, version.oldest_clock);
      if (t >= kClocks) break;
      co_await w.rt.sleep_for((w.worker == 3 ? 35 : 10) * kMilli);
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, w.worker == 3 ? 1000 : 3));
    }
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().updates, kClocks);
  EXPECT_GE(c.total().dropped, 2);
  EXPECT_GE(jumps, 2);
  EXPECT_EQ(c.state["w"], Vector(kElems, 3.0F * kClocks));  // nothing of the slow one is in
}

TEST(Server, ThePushThatComesAgainIsCountedAndDropped) {
  for (const char* consistency : {"async", "bsp"}) {
    Cluster c = numbers(consistency, 1, 1);
    c.work = [&](Worker w) -> Task<Status> {
      TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, 0, 1));
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, 0, 1));
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, 1, 1));
      co_return co_await push_number(w, 0, 1);
    };
    run_well(c);
    EXPECT_EQ(c.total().repeated, 2);
    EXPECT_EQ(c.total().dropped, 0);
    EXPECT_EQ(c.state["w"], Vector(kElems, 2));
  }
}

TEST(Server, PushPullGivesTheValuesBeforeOrAfterThatVeryUpdate) {
  for (const ReadWhen when : {ReadWhen::kBefore, ReadWhen::kAfter}) {
    Cluster c = numbers("async", 3);
    std::vector<float> got;
    std::int64_t updates_seen = 0;
    c.work = [&](Worker w) -> Task<Status> {
      TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
      co_await w.rt.sleep_for((10 + w.worker) * kMilli);
      PushNote note;
      note.scale = 2;
      const Tensor values = tensor_of(Vector(kElems, 1));  // also where the answer goes
      const Result<Version> read = co_await w.client.push_pull(0, values, values, note, when);
      if (!read.ok()) co_return read.status();
      updates_seen += read->updates;
      for (const float v : values_of(values)) EXPECT_EQ(v, values_of(values)[0]);
      got.push_back(values_of(values)[0]);
      co_return Status();
    };
    run_well(c);
    EXPECT_EQ(got, when == ReadWhen::kBefore ? (Vector{0, 2, 4}) : (Vector{2, 4, 6}));
    EXPECT_EQ(updates_seen, when == ReadWhen::kBefore ? 0 + 1 + 2 : 1 + 2 + 3);
  }
}

TEST(Server, PullsWaitForTheFirstValues) {
  Cluster c = numbers("async", 2);
  c.work = [&](Worker w) -> Task<Status> {
    if (w.worker == 0) {
      co_await w.rt.sleep_for(50 * kMilli);
      co_return co_await w.client.init(0, tensor_of(Vector(kElems, 7)));
    }
    const Result<Vector> values = co_await pull_numbers(w, 0);
    EXPECT_TRUE(values.ok());
    EXPECT_EQ(*values, Vector(kElems, 7));
    EXPECT_GE(w.rt.now(), 50 * kMilli);
    co_return values.status();
  };
  run_well(c);
}

// Workers that give different values show who gave what: every slice has the values of one of them.
TEST(Server, SeveralWorkersShareTheSendingOfFirstValues) {
  Cluster c = numbers("async", 2, 3);
  c.work = [&](Worker w) -> Task<Status> {
    const Tensor own = tensor_of(Vector(kElems, static_cast<float>(w.worker)));
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, own, {w.worker, 2}));
    const Result<Vector> values = co_await pull_numbers(w, 0);
    if (!values.ok()) co_return values.status();
    const auto from_second = std::count(values->begin(), values->end(), 1.0F);
    EXPECT_GT(from_second, 0);
    EXPECT_EQ(std::count(values->begin(), values->end(), 0.0F), kElems - from_second);
    EXPECT_LE(std::abs(kElems - 2 * from_second), kElems / 3 + 1) << "they differ by a slice at most";
    co_return Status();
  };
  run_well(c);
}

// A worker need not wait for the one that gives the first values: what it pushes is applied to them when they
// come.
TEST(Server, PushesAheadOfTheFirstValuesAreAppliedAfterThem) {
  for (const char* consistency : {"async", "bsp"}) {
    Cluster c = numbers(consistency, 3);
    c.work = [&](Worker w) -> Task<Status> {
      if (w.worker == 0) {
        co_await w.rt.sleep_for(50 * kMilli);
        TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
      }
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, 0, 3, 0));
      Version version;
      const Result<Vector> values = co_await pull_numbers(w, 1, &version);
      if (!values.ok()) co_return values.status();
      EXPECT_GE(version.updates, 1);
      EXPECT_GE(w.rt.now(), 50 * kMilli);
      co_return co_await w.client.finish();
    };
    run_well(c);
    EXPECT_FALSE(c.state.empty());
    for (const auto& [name, values] : c.state)
      for (const float x : values) EXPECT_EQ(x, consistency == std::string("bsp") ? 3 : 9) << name;
  }
}

// Worker 0 reads, worker 1 pushes three times, then worker 0 pushes what it computed on the old values.
void push_stale(Cluster& c) {
  c.divide_by_staleness = true;
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    Version version;
    TR_CO_RETURN_IF_ERROR((co_await pull_numbers(w, 0, &version)).status());
    EXPECT_EQ(version.updates, 0);
    if (w.worker == 0) {
      co_await w.rt.sleep_for(20 * kMilli);
      co_return co_await push_number(w, 0, 90, version.updates);
    }
    for (std::int64_t t = 0; t < 3; ++t) TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, 1, t));
    co_return Status();
  };
  run_well(c);
}

TEST(Server, TheRateIsDividedByTheStalenessOfThePush) {
  Cluster plain = numbers("async", 2);
  push_stale(plain);
  EXPECT_EQ(plain.state["[0,11)/w"], Vector(11, 3 + 30));
  EXPECT_EQ(plain.total().staleness, (std::map<std::int64_t, std::int64_t>{{0, 6}, {3, 2}}));
  Cluster by_graph = numbers("async", 2);
  by_graph.make_update = testing::sgd;
  push_stale(by_graph);
  EXPECT_EQ(by_graph.state["[0,11)/w"], Vector(11, -33));
  Cluster several = numbers("soft", 2);
  several.clocks.gather = 4;
  push_stale(several);
  // One update from all four, 0 before it: nothing is stale.
  EXPECT_EQ(several.state["[0,11)/w"], Vector(11, 93.0F / 4));
}

TEST(Server, NobodyWaitsForAWorkerThatFinishedAndAllWaitAgainWhenItIsBack) {
  Cluster c = numbers("bsp", 2, 1);
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    // Worker 0 makes one clock and meets, worker 1 makes three.
    const std::int64_t clocks = w.worker == 0 ? 1 : 3;
    for (std::int64_t t = 0; t < clocks; ++t) {
      TR_CO_RETURN_IF_ERROR((co_await pull_numbers(w, t)).status());
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, 4));
    }
    TR_CO_RETURN_IF_ERROR(co_await w.client.finish());
    co_await w.rt.sleep_until(100 * kMilli);
    const Result<Vector> met = co_await pull_numbers(w, 3);
    if (!met.ok()) co_return met.status();
    EXPECT_EQ(*met, Vector(kElems, 12));  // the mean of 4 and 4, then 4 alone twice
    TR_CO_RETURN_IF_ERROR(co_await w.client.rejoin(3));
    co_await w.rt.sleep_until(200 * kMilli);
    TR_CO_RETURN_IF_ERROR(co_await push_number(w, 3, w.worker == 0 ? 2 : 6));
    const TimeNs asked = w.rt.now();
    if (w.worker == 0) co_await w.rt.sleep_for(50 * kMilli);
    const Result<Vector> after = co_await pull_numbers(w, 4);
    if (!after.ok()) co_return after.status();
    EXPECT_EQ(*after, Vector(kElems, 16)) << asked;
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().updates, 4);
  EXPECT_EQ(c.total().dropped, 0);
}

TEST(Server, FinishEndsWhenAllPushesOfTheWorkerAreApplied) {
  Cluster c = numbers("bsp", 2, 1);
  TimeNs pushed = 0;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    if (w.worker == 1) {
      co_await w.rt.sleep_for(30 * kMilli);
      pushed = w.rt.now();
      co_return co_await push_number(w, 0, 1);
    }
    TR_CO_RETURN_IF_ERROR(co_await push_number(w, 0, 3));
    TR_CO_RETURN_IF_ERROR(co_await w.client.finish());
    EXPECT_GT(w.rt.now(), pushed);
    EXPECT_GT(pushed, 0);
    const Result<Vector> values = co_await pull_numbers(w, 0);
    if (!values.ok()) co_return values.status();
    EXPECT_EQ(*values, Vector(kElems, 2));
    co_return Status();
  };
  run_well(c);
}

TEST(Server, AdagradRunsOnTheServerWithItsStateAndItsOwnCountOfSteps) {
  Cluster c = numbers("async", 1, 2);
  c.make_update = testing::adagrad;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start_at_zero(w));
    for (std::int64_t t = 0; t < 3; ++t)
      TR_CO_RETURN_IF_ERROR(co_await push_number(w, t, static_cast<float>(t + 1)));
    co_return Status();
  };
  run_well(c);
  float value = 0, sum = 0;
  for (int t = 0; t < 3; ++t) {
    const float g = static_cast<float>(t + 1);
    sum += g * g;
    value -= g / (std::sqrt(sum) + 1e-10F);
  }
  ASSERT_EQ(c.state.size(), 4U);
  EXPECT_EQ(c.state["[0,11)/w/sum"], Vector(11, 14));
  EXPECT_EQ(c.state["[11,23)/w/sum"], Vector(12, 14));
  for (const float v : c.state["[11,23)/w"]) EXPECT_FLOAT_EQ(v, value);
}

TEST(Server, TheSameSeedGivesTheSameTraceAndPhantomsMoveTheSameBytes) {
  const auto play = [](bool phantom) {
    Cluster c;
    c.workers = 3;
    c.servers = 2;
    c.keys = two_keys();
    c.make_update = testing::sgd;
    c.spec.phantom = phantom;
    c.spec.latency_jitter = 1;
    c.work = [&](Worker w) -> Task<Status> {
      for (std::uint32_t k = 0; k < 2; ++k) {
        const TensorType type{DType::kF32, {c.keys[k].num_elems}};
        const Tensor values = *Tensor::allocate(phantom ? phantom_device() : cpu_device(), type);
        if (!phantom) std::fill_n(values.data<float>(), c.keys[k].num_elems, 0.0F);
        if (w.worker == 0) TR_CO_RETURN_IF_ERROR(co_await w.client.init(k, values));
        for (std::int64_t t = 0; t < 3; ++t) {
          TR_CO_RETURN_IF_ERROR((co_await w.client.pull(k, values, t)).status());
          PushNote note;
          note.clock = t;
          TR_CO_RETURN_IF_ERROR(co_await w.client.push(k, values, note));
        }
      }
      co_return Status();
    };
    run_well(c);
    EXPECT_EQ(c.total().updates, 3 * 3);  // of three slices
    return c.report;
  };
  const auto first = play(false), second = play(false), phantom = play(true);
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_EQ(first.num_bytes, phantom.num_bytes);
  EXPECT_EQ(first.end_time, phantom.end_time);
}

TEST(Server, AnAnswerOutOfTheLiveValuesHoldsUpTheNextUpdateAndNotTheOtherWayRound) {
  // A slow link: while worker 0 reads the large vector, worker 1 has read and pushed, and so has worker 2.
  constexpr std::int64_t kMany = 100'000;
  Cluster c;
  c.workers = 2;
  c.keys = {key_of("w", kMany)};
  c.small_elems = 1 << 20;
  c.work = [&](Worker w) -> Task<Status> {
    if (w.worker == 0) TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(kMany, 0))));
    for (std::int64_t t = 0; t < 3; ++t) {
      // The gradient does not wait for the read: what a worker that does not keep to its clocks would do.
      const Tensor into = tensor_of(Vector(kMany, -1));
      std::vector<Task<Status>> both;
      const auto read = [](Worker of, Tensor to, std::int64_t clock) -> Task<Status> {
        const Result<Version> version = co_await of.client.pull(0, to, clock);
        co_return version.status();
      };
      PushNote note;
      note.clock = t;
      both.push_back(read(w, into, t));
      both.push_back(w.client.push(0, tensor_of(Vector(kMany, 1)), note));
      TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(w.rt, std::move(both)));
      const Vector got = values_of(into);
      EXPECT_EQ(got, Vector(kMany, got[0])) << "a read that an update was half through with";
    }
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.state["w"], Vector(kMany, 3));
}

TEST(Server, WhatMakesNoSenseIsRefused) {
  Cluster c = numbers("async", 1, 1);
  c.work = [&](Worker w) -> Task<Status> {
    const Tensor two = tensor_of(Vector(2, 1));
    const Status too_short = co_await w.client.init(0, two);
    EXPECT_EQ(too_short.code(), Code::kInvalid);
    EXPECT_NE(too_short.message().find("values of 'w': got f32[2], expected contiguous f32[23]"),
              std::string::npos)
        << too_short.message();
    const PushNote note;
    const Status no_key = co_await w.client.push(7, two, note);
    EXPECT_EQ(no_key.code(), Code::kInvalid);
    ServerOptions options;
    options.layout = *make_layout(c.keys, 1);
    options.keys = c.keys;
    options.consistency = "eventually";
    EXPECT_EQ(make_server(w.rt, w.group.mailbox(), options).status().code(), Code::kNotFound);
    options.consistency = "bsp";
    options.server = 3;
    EXPECT_EQ(make_server(w.rt, w.group.mailbox(), options).status().code(), Code::kInvalid);
    options.server = 0;
    options.make_update = testing::clipped_sgd;
    const Status clipped = make_server(w.rt, w.group.mailbox(), options).status();
    EXPECT_EQ(clipped.code(), Code::kInvalid);
    EXPECT_NE(clipped.message().find("reads 'clip'"), std::string::npos) << clipped.message();
    co_return Status();
  };
  run_well(c);
}

}  // namespace
}  // namespace trireme::server
