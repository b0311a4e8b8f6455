#include "trireme/agree/mechanism/vector_math.h"

#include <gtest/gtest.h>

#include "trireme/runtime/virtual/world.h"

namespace trireme::agree {
namespace {

using runtime::Runtime;
using runtime::Task;
using Vector = std::vector<float>;

// Runs `body` on one virtual machine; how long it took.
TimeNs run(const std::function<Task<void>(Runtime&)>& body, bool phantom = false) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  spec.phantom = phantom;
  const auto world = runtime::make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "rank");
  world->start(rt, body(rt));
  const auto report = world->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
  return report.end_time;
}

Tensor tensor_of(const Vector& values) {
  return Tensor::from<float>(values, Shape{static_cast<std::int64_t>(values.size())});
}
Vector values_of(const Tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

TEST(VectorMath, EveryPassComputesItsFormula) {
  const Tensor x = tensor_of({1, 2, 3}), y = tensor_of({10, 20, 30}), z = tensor_of({0, 0, 0});
  run([&](Runtime& rt) -> Task<void> {
    co_await copy(rt, x, z);
    EXPECT_EQ(values_of(z), (Vector{1, 2, 3}));
    co_await scale(rt, z, 2);
    EXPECT_EQ(values_of(z), (Vector{2, 4, 6}));
    co_await add_scaled(rt, z, 0.5F, y);
    EXPECT_EQ(values_of(z), (Vector{7, 14, 21}));
    co_await subtract(rt, y, x, z);
    EXPECT_EQ(values_of(z), (Vector{9, 18, 27}));
    co_await mix(rt, z, 0.25F, x);
    EXPECT_EQ(values_of(z), (Vector{7, 14, 21}));
    co_await fill(rt, z, -1);
    EXPECT_EQ(values_of(z), (Vector{-1, -1, -1}));
  });
}

TEST(VectorMath, APassOverAPartLeavesTheRestAlone) {
  const Tensor x = tensor_of({1, 2, 3});
  run([&](Runtime& rt) -> Task<void> {
    PassBody body = [](float* const* v, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) v[0][i] += 1;
    };
    const PassCost cost{1, 1, 1};
    std::vector<Tensor> vectors{x};
    co_await run_pass(rt, cost, vectors, std::move(body), "add one", 2);
  });
  EXPECT_EQ(values_of(x), (Vector{2, 3, 3}));
}

TEST(VectorMath, ManyThreadsCoverEveryElementOnce) {
  const Tensor x = tensor_of(Vector(1'000'003, 1));
  run([&](Runtime& rt) -> Task<void> {
    EXPECT_GT(rt.compute_threads(), 1);
    co_await scale(rt, x, 3);
  });
  for (const float v : x.values<float>()) ASSERT_EQ(v, 3);
}

TEST(VectorMath, APhantomPassTakesItsTimeAndTouchesNothing) {
  constexpr std::int64_t kElems = 10'000'000;
  const auto pass = [](Runtime& rt) -> Task<void> {
    const Tensor a = *new_vector(rt, kElems), b = *new_vector(rt, kElems);
    EXPECT_TRUE(a.is_phantom());
    co_await copy(rt, a, b);
  };
  const TimeNs expected = from_seconds(2 * 4 * kElems / cost::MachineModel{}.bytes_per_second);
  EXPECT_NEAR(static_cast<double>(run(pass, true)), static_cast<double>(expected),
              0.01 * static_cast<double>(expected));
}

}  // namespace
}  // namespace trireme::agree
