// A run in steady state, profiled or not, allocates nothing but the frame of run() itself. Counted by
// replacing operator new in this binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/exec/fixtures.h"
#include "trireme/graph/pass/passes.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<std::int64_t> num_allocations{0};

void* counted(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) num_allocations.fetch_add(1, std::memory_order_relaxed);
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) std::abort();
  return p;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
// The nothrow forms too: sanitizers insist that a block goes back to the family it came from.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace trireme::exec {
namespace {

TEST(Allocation, ASteadyRunAllocatesOnlyTheFrameOfRun) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {8, 8}), lr = b.fill(0.1, kF32, {});
  std::vector<Value> parameters;
  Value h = x, hidden;
  for (int i = 0; i < 3; ++i) {
    parameters.push_back(b.variable(fmt::format("w{}", i), kF32, {8, 8}));
    h = b.tanh(b.matmul(h, parameters.back()));
    if (i == 1) hidden = h;
  }
  const Value loss = b.sum(h);
  b.output("loss", loss);
  const std::vector<Value> grads = *graph::add_gradients(g, loss, parameters);
  CompileOptions options{.kernels = reference_kernels()};
  for (std::size_t i = 0; i < grads.size(); ++i) {
    b.output(fmt::format("grad{}", i), grads[i]);
    b.output(fmt::format("step{}", i), b.add_node(op::kApplySgd, {parameters[i], grads[i], lr}));
    options.notices.push_back({fmt::format("grad{}", i), ""});
  }
  ASSERT_TRUE(b.status().ok());
  // The last gate is opened during the run, when the forward pass has come to it.
  b.output("hidden", hidden);
  options.notices.push_back({"hidden", ""});
  for (int i = 0; i < 3; ++i) options.gates.push_back({{fmt::format("w{}", i)}});
  auto compiled = *compile(g, options);
  EXPECT_GE(compiled->num_strands(), 5);

  CompileOptions in_phases = options;
  in_phases.phases = {{"loss", "hidden"}, {"grad0", "grad1", "grad2"}, {"step0", "step1", "step2"}};
  auto parts = *compile(g, in_phases);

  const auto run_twelve_times = [&](bool profile, bool phases) {
    num_allocations = 0;
    on_shuffled(
        [&](Runtime& rt) -> Task<void> {
          Variables v;
          for (int i = 0; i < 3; ++i)
            EXPECT_TRUE(v.add(fmt::format("w{}", i), *Tensor::allocate(cpu_device(), {kF32, {8, 8}})).ok());
          auto e = *make_execution(rt, phases ? parts : compiled, {.variables = &v, .profile = profile});
          const Tensor images = *Tensor::allocate(cpu_device(), {kF32, {8, 8}});
          int notices = 0;
          e->on_notice([&](int notice, const std::shared_ptr<Event>&) {
            ++notices;
            if (notice == 3) e->open(2);
          });
          for (int i = 0; i < 12; ++i) {
            counting = i >= 2;
            const bool fed = e->feed("x", images).ok();
            for (const int gate : {0, 1}) e->open(gate);
            bool ok = true;
            for (int p = 0; ok && p < (phases ? 3 : 1); ++p) {
              for (int gate = 0; p > 0 && gate < 3; ++gate) e->open(gate);
              ok = (co_await e->run({.phase = phases ? p : -1})).ok();
            }
            counting = false;
            EXPECT_TRUE(fed && ok);
          }
          EXPECT_EQ(notices, 48);
        },
        9);
    EXPECT_LE(num_allocations.load(), phases ? 30 : 10)
        << "one frame for each of the runs counted; profile " << profile << ", phases " << phases;
  };
  for (const bool phases : {false, true})
    for (const bool profile : {false, true}) run_twelve_times(profile, phases);
  counting = true;
  delete new int;
  counting = false;
  EXPECT_GT(num_allocations.load(), 0) << "the counter must count";
}

}  // namespace
}  // namespace trireme::exec
