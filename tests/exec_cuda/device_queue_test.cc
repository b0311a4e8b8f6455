// Executions behind each other on one queue, which the host does not wait for.
#include "trireme/exec/device_queue.h"
#include "tests/exec_cuda/on_gpu.h"
#include "trireme/exec/device_ahead.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {
namespace {

using graph::bits;

class Queued : public OnGpu {
 protected:
  static Tensor locked(const TensorType& type) {
    return Tensor(*kernel::cuda::allocate_pinned(**gpu(), type.num_bytes()), type);
  }
};

Tensor four(float x) { return tensor({x, x, x, x}); }
void fill(const Tensor& t, float x) { std::fill_n(t.data<float>(), 4, x); }

// "sum" = w + x, then "twice" = 2 sum: a cut between the two.
Graph sum_and_twice() {
  Graph graph;
  Builder b(graph);
  const Value sum = b.add(b.variable("w", kF32, {4}), b.input("x", kF32, {4}));
  b.output("sum", sum);
  b.output("twice", b.add(sum, sum));
  EXPECT_TRUE(b.status().ok());
  return graph;
}

// w <- w - 0.5 g
Graph step() {
  Graph graph;
  Builder b(graph);
  const Value w = b.variable("w", kF32, {4});
  b.output("w",
           b.add_node(op::kAssign, {w, b.sub(w, b.mul(b.input("g", kF32, {4}), b.fill(0.5, kF32, {4})))}));
  EXPECT_TRUE(b.status().ok());
  return graph;
}

// As a training step: what one Execution writes the next one reads, and the host looks only at "sum", when
// its notice is true. Feeds change as soon as a run has ended.
TEST_F(Queued, RunsSeeWhatWasPutThereBeforeThem) {
  CompileOptions options;
  options.bound = {"sum", "twice"};
  options.notices = {{"sum", ""}};
  const auto forward = compiled(sum_and_twice(), options), update = compiled(step());
  on_real([&](Runtime& rt) -> Task<void> {
    const auto queue = std::make_shared<DeviceQueue>(device());
    DeviceAhead ahead(device());
    Variables v;
    EXPECT_TRUE(v.add("w", four(8)).ok());
    DeviceMirror mirror(device());
    EXPECT_TRUE(mirror.add(*v.get("w")).ok());
    EXPECT_TRUE(mirror.upload_all().ok());
    const Tensor sum = locked({kF32, {4}}), twice = to_device(four(0));
    ExecutionOptions with{.variables = &v, .mirror = &mirror, .ahead = &ahead, .queue = queue};
    auto u = *make_execution(rt, update, with);
    EXPECT_TRUE(u->feed("g", twice).ok());
    with.bindings = {{"sum", sum}, {"twice", twice}};
    auto f = *make_execution(rt, forward, with);
    std::shared_ptr<Event> there;
    f->on_notice([&](int, std::shared_ptr<Event> point) { there = std::move(point); });
    const Tensor slots[] = {*ahead.allocate({kF32, {4}}), *ahead.allocate({kF32, {4}})};
    float w = 8;
    for (int i = 0; i < 8; ++i) {
      const auto x = static_cast<float>(i);
      fill(sum, -1);
      EXPECT_TRUE(ahead.settle(slots[i % 2]).ok());
      fill(slots[i % 2], x);
      EXPECT_TRUE(ahead.send(slots[i % 2]).ok());
      EXPECT_TRUE(f->feed("x", slots[i % 2]).ok());
      EXPECT_TRUE((co_await f->run()).ok());
      EXPECT_NE(there, nullptr);
      EXPECT_TRUE(queue->wait_for(there).ok());
      EXPECT_EQ(bits(sum), bits(four(w + x))) << i;
      EXPECT_TRUE((co_await u->run()).ok());
      w -= w + x;  // half of twice the sum
    }
    EXPECT_TRUE(queue->wait().ok());
    EXPECT_TRUE(mirror.download_all().ok());
    EXPECT_EQ(bits(*v.get("w")), bits(four(w)));
  });
}

// Memory of the host that may change when a run has ended, though its work has not begun.
TEST_F(Queued, FeedsOfTheHostAreTakenWhenARunEnds) {
  CompileOptions options;
  options.bound = {"twice"};
  options.fetches = {"twice"};
  const auto plan = compiled(sum_and_twice(), options);
  on_real([&](Runtime& rt) -> Task<void> {
    const auto queue = std::make_shared<DeviceQueue>(device());
    DeviceAhead ahead(device());
    Variables v;
    EXPECT_TRUE(v.add("w", four(1)).ok());
    const Tensor slot = *ahead.allocate({kF32, {4}}), plain = four(0);
    for (const Tensor& x : {plain, slot}) {  // page-locked, and never sent
      const Tensor twice = to_device(four(0));
      auto e = *make_execution(
          rt, plan, {.variables = &v, .bindings = {{"twice", twice}}, .ahead = &ahead, .queue = queue});
      fill(x, 2);
      EXPECT_TRUE(e->feed("x", x).ok());
      EXPECT_TRUE((co_await e->run()).ok());
      fill(x, 3);
      EXPECT_EQ(bits(*e->fetch("twice")), bits(four(6)));
    }
  });
}

TEST_F(Queued, AnExecutionMayGoWhileItsWorkIsOnTheQueue) {
  const auto plan = compiled(sum_and_twice());
  on_real([&](Runtime& rt) -> Task<void> {
    const auto queue = std::make_shared<DeviceQueue>(device());
    Variables v;
    EXPECT_TRUE(v.add("w", four(1)).ok());
    for (int i = 0; i < 3; ++i) {
      auto e = *make_execution(rt, plan, {.variables = &v, .queue = queue});
      EXPECT_TRUE(e->feed("x", four(2)).ok());
      for (int run = 0; run < 3; ++run) EXPECT_TRUE((co_await e->run()).ok());
    }
    EXPECT_TRUE(queue->wait().ok());
  });
}

}  // namespace
}  // namespace trireme::exec
