// Clients and servers in virtual time, over the group's letters.
#include "trireme/server/server.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/server/cluster.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"
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

// w -= lr * grad, by the op of plain stochastic gradient descent.
Result<UpdateSpec> sgd(std::span<const StoredPart> parts) {
  UpdateSpec spec;
  graph::Builder b(spec.graph);
  const auto lr = b.input("lr", DType::kF32, {});
  for (const StoredPart& p : parts) {
    const auto w = b.variable(p.name, DType::kF32, {p.count});
    const auto g = b.input("grad:" + p.name, DType::kF32, {p.count});
    b.output("updated:" + p.name, b.add_node(op::kApplySgd, {w, g, lr}));
  }
  TR_RETURN_IF_ERROR(b.status());
  return spec;
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
        if (colocated && servers > workers) continue;
        Cluster c;
        c.workers = workers;
        c.servers = servers;
        c.colocated = colocated;
        c.keys = two_keys();
        c.make_update = sgd;
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

}  // namespace
}  // namespace trireme::server
