// Calls that run ahead on a real pool give the results of calls in order, for random programs with mutation.
#include <gtest/gtest.h>

#include <optional>

#include "trireme/base/rng.h"
#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/eager/pool_runner.h"

namespace trireme::eager {
namespace {

// Keeps work until it is asked for, then runs it in an order drawn from a seed. Everything on one thread.
class ShuffledRunner final : public CallRunner {
 public:
  explicit ShuffledRunner(std::uint64_t seed) : rng_(seed, 11) {}
  void start(Callback work) override { waiting_.push_back(std::move(work)); }
  void wait(const std::atomic<bool>& done) override {
    while (!done.load()) {
      TR_CHECK(!waiting_.empty(), "nothing left to run");
      const auto pick =
          static_cast<std::ptrdiff_t>(rng_.next_below(static_cast<std::uint32_t>(waiting_.size())));
      Callback work = std::move(waiting_[static_cast<std::size_t>(pick)]);
      waiting_.erase(waiting_.begin() + pick);
      work();
    }
  }
  std::size_t num_waiting() const { return waiting_.size(); }

 private:
  Philox rng_;
  std::vector<Callback> waiting_;
};

Tensor random_tensor(Philox& rng) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {8, 8}});
  for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
  return t;
}

// A random program over 8x8 matrices: computes, updates parameters in place, takes gradients, drops values.
// Returns the bits of everything alive at the end.
std::vector<float> random_program(Context& ctx, std::uint64_t seed) {
  Philox rng(seed, 21);
  const auto below = [&](std::size_t n) { return rng.next_below(static_cast<std::uint32_t>(n)); };
  std::vector<Array> parameters, values;
  for (int i = 0; i < 3; ++i) parameters.push_back(ctx.parameter(fmt::format("p{}", i), random_tensor(rng)));
  for (int i = 0; i < 3; ++i) values.push_back(ctx.array(random_tensor(rng)));
  const auto any = [&]() -> Array {
    const std::size_t i = below(values.size() + parameters.size());
    return i < values.size() ? values[i] : parameters[i - values.size()];
  };
  std::vector<float> read;
  for (int step = 0; step < 60; ++step) {
    const Array& p = parameters[below(parameters.size())];
    switch (below(8)) {
      case 0:
        values.push_back(tanh(any() + any()));
        break;
      case 1:
        values.push_back(tanh(matmul(any(), any())));
        break;
      case 2:
        values.push_back(any().reshape({64}).reshape({8, 8}) * 0.5);
        break;
      case 3:
        apply_sgd(p, tanh(any()), 0.1);
        break;
      case 4:
        assign_add(p, tanh(p * any()));
        break;
      case 5: {
        const Array loss = square(tanh(matmul(p, any().detached()))).sum();
        p.clear_grad();
        loss.backward();
        apply_sgd(p, p.grad(), 0.05);
        break;
      }
      case 6:
        values[below(values.size())] = tanh(any());
        break;
      default:
        read.push_back(static_cast<float>(*any().sum().item()));
    }
    if (values.size() > 8) values.erase(values.begin());
  }
  for (const auto* list : {&values, &parameters})
    for (const Array& a : *list) {
      const std::vector<float> v = *a.values<float>();
      read.insert(read.end(), v.begin(), v.end());
    }
  EXPECT_TRUE(ctx.status().ok()) << ctx.status().to_string();
  return read;
}

std::vector<float> in_order(std::uint64_t seed) {
  Context ctx;
  return random_program(ctx, seed);
}

TEST(RunAhead, GivesTheResultsOfCallsInOrderInEveryOrderOfRunning) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    ShuffledRunner runner(seed);
    std::optional<Context> ctx;
    ctx.emplace(ContextOptions{.runner = &runner, .max_ahead = seed % 2 == 0 ? 1000 : 7});
    ASSERT_EQ(random_program(*ctx, seed), in_order(seed)) << "seed " << seed;
    ctx.reset();
    EXPECT_EQ(runner.num_waiting(), 0U) << "the end of a Context waits for its calls";
  }
}

TEST(RunAhead, CallsReturnBeforeTheyRunAndReadingWaits) {
  ShuffledRunner runner(1);
  Context ctx({.runner = &runner});
  const Array a = ctx.array({1, 2}, {2});
  const Array b = a + a, c = b * 2.0;
  EXPECT_EQ(runner.num_waiting(), 1U) << "b is ready to run, c waits for it";
  EXPECT_EQ(*c.values<float>(), (std::vector<float>{4, 8}));
  EXPECT_EQ(runner.num_waiting(), 0U);
}

TEST(RunAhead, GivesTheSameResultsOnARealPool) {
  const auto runner = make_pool_runner(3);
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    Context ctx({.runner = runner.get(), .max_ahead = 50});
    EXPECT_EQ(random_program(ctx, seed), in_order(seed)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme::eager
