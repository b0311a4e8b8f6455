// Where tensors are when a graph runs on a GPU: given there, mirrored there, too large, given back.
#include <gmock/gmock.h>

#include "tests/exec_cuda/on_gpu.h"

namespace trireme::exec {
namespace {

using graph::bits;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DeviceMemory : public OnGpu {};

constexpr int kRuns = 3;  // direct, captured, replayed

// y = (x + 1) * (x + 1) * v, in the bits of small integers.
Graph square() {
  Graph graph;
  Builder b(graph);
  const Value x = b.add(b.input("x", kF32, {4}), b.fill(1, kF32, {4}));
  b.output("y", b.mul(b.mul(x, x), b.variable("v", kF32, {4})));
  EXPECT_TRUE(b.status().ok());
  return graph;
}

Tensor squared(float x, float v) {
  const float y = (x + 1) * (x + 1) * v;
  return tensor({y, y, y, y});
}
Tensor four(float x) { return tensor({x, x, x, x}); }

// Captured kernels hold addresses: every feed that is somewhere else must be seen.
TEST_F(DeviceMemory, FeedsMayComeFromAnywhereAndChangeAfterCapture) {
  const auto plan = compiled(square());
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("v", to_device(four(2))).ok());
    auto e = *make_execution(rt, plan, {.variables = &v});
    const Tensor here_a = four(1), here_b = four(2), there_a = to_device(four(3)),
                 there_b = to_device(four(4));
    const std::vector<std::pair<Tensor, float>> feeds{{there_a, 3}, {there_b, 4}, {here_a, 1},  {here_b, 2},
                                                      {there_b, 4}, {here_b, 2},  {there_b, 4}, {there_a, 3}};
    for (const auto& [x, value] : feeds) {
      EXPECT_TRUE(e->feed("x", x).ok());
      for (int run = 0; run < kRuns; ++run) {
        EXPECT_TRUE((co_await e->run()).ok());
        EXPECT_EQ(bits(*e->fetch("y")), bits(squared(value, 2))) << value << ", run " << run;
      }
    }
  });
}

// A feed of the host that was replaced by one on the device may be gone.
TEST_F(DeviceMemory, AFeedThatWasReplacedIsNotReadAgain) {
  const auto plan = compiled(square());
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("v", four(1)).ok());
    auto e = *make_execution(rt, plan, {.variables = &v});
    auto memory = std::make_unique<std::vector<float>>(4, 5.0F);
    const Tensor lent(Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(memory->data()), 16),
                      {kF32, {4}});
    EXPECT_TRUE(e->feed("x", lent).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_TRUE(e->feed("x", to_device(four(2))).ok());
    memory.reset();
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(*e->fetch("y")), bits(squared(2, 1)));
  });
}

TEST_F(DeviceMemory, VariablesAndBoundOutputsOnTheDeviceAreUsedWhereTheyAre) {
  Graph graph;
  Builder b(graph);
  const Value next = b.add_node(op::kAssignAdd, {b.variable("v", kF32, {4}), b.input("x", kF32, {4})});
  b.output("twice", b.add(next, next));
  const auto plan = compiled(graph, {.bound = {"twice"}});
  on_real([&](Runtime& rt) -> Task<void> {
    const Tensor there = to_device(four(1)), out = to_device(four(0));
    Variables v;
    EXPECT_TRUE(v.add("v", there).ok());
    auto e = *make_execution(rt, plan, {.variables = &v, .bindings = {{"twice", out}}});
    EXPECT_TRUE(e->feed("x", four(1)).ok());
    for (int run = 1; run <= kRuns; ++run) {
      EXPECT_TRUE((co_await e->run()).ok());
      const auto sum = static_cast<float>(1 + run);
      EXPECT_EQ(bits(to_host(there)), bits(four(sum)));
      EXPECT_EQ(bits(to_host(out)), bits(four(2 * sum)));
      EXPECT_EQ(bits(*e->fetch("twice")), bits(four(2 * sum)));
    }
  });
}

TEST_F(DeviceMemory, AMirroredVariableIsSharedByExecutionsAndStaysOnTheDeviceUntilAskedFor) {
  Graph adds, reads;
  Builder a(adds), r(reads);
  a.output("next", a.add_node(op::kAssignAdd, {a.variable("v", kF32, {4}), a.input("x", kF32, {4})}));
  r.output("twice", r.add(r.variable("v", kF32, {4}), r.variable("w", kF32, {4})));
  const auto adder = compiled(adds), reader = compiled(reads);
  on_real([&](Runtime& rt) -> Task<void> {
    // Two views of one buffer: all of it is mirrored.
    const Tensor both = tensor({1, 1, 1, 1, 10, 10, 10, 10});
    const Tensor own(both.buffer(), {kF32, {4}}, 0), other(both.buffer(), {kF32, {4}}, 16);
    Variables v;
    EXPECT_TRUE(v.add("v", own).ok());
    EXPECT_TRUE(v.add("w", other).ok());
    DeviceMirror mirror(device());
    EXPECT_FALSE(mirror.find(own).has_value());
    EXPECT_TRUE(mirror.add(own).ok());
    EXPECT_TRUE(mirror.find(other).has_value());
    EXPECT_TRUE(mirror.upload_all().ok());
    auto add = *make_execution(rt, adder, {.variables = &v, .mirror = &mirror});
    auto read = *make_execution(rt, reader, {.variables = &v, .mirror = &mirror});
    EXPECT_TRUE(add->feed("x", four(1)).ok());
    for (int run = 1; run <= kRuns; ++run) {
      EXPECT_TRUE((co_await add->run()).ok());
      EXPECT_TRUE((co_await read->run()).ok());
      EXPECT_EQ(bits(*read->fetch("twice")), bits(four(static_cast<float>(11 + run))));
      EXPECT_EQ(bits(own), bits(four(1))) << "the host's copy is left alone";
    }
    EXPECT_TRUE(mirror.download(own).ok());
    EXPECT_EQ(bits(own), bits(four(1 + kRuns)));
    own.data<float>()[0] = 50;
    EXPECT_TRUE(mirror.upload(own).ok());
    EXPECT_TRUE((co_await read->run()).ok());
    EXPECT_EQ(bits(*read->fetch("twice")), bits(tensor({60, 14, 14, 14})));
    EXPECT_TRUE((co_await add->run()).ok());
    EXPECT_TRUE(mirror.download_all().ok());
    EXPECT_EQ(bits(both), bits(tensor({51, 5, 5, 5, 10, 10, 10, 10})));
  });
}

TEST_F(DeviceMemory, AGraphThatDoesNotFitIsRefusedWithWhatIsLargestAndTheNextOneRuns) {
  Graph huge;
  Builder b(huge);
  const std::int64_t side = std::int64_t{1} << 19;  // 1 TiB of f32
  const Value all = b.add_node(op::kTanh, {b.fill(0.5, kF32, {side, side})}, {}, "wide_layer");
  b.output("sum", b.sum(b.mul(all, b.variable("v", kF32, {1}))));
  const auto too_much = compiled(huge), little = compiled(square());
  const std::size_t before = (*gpu())->bytes_in_use();
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v;
    EXPECT_TRUE(v.add("v", tensor({1})).ok());
    const auto refused = make_execution(rt, too_much, {.variables = &v});
    EXPECT_EQ(refused.status().code(), Code::kExhausted);
    const std::string& message = refused.status().message();
    EXPECT_THAT(message, AllOf(HasSubstr(std::to_string(too_much->arena_bytes())), HasSubstr("are free")));
    EXPECT_THAT(message,
                AllOf(HasSubstr("wide_layer"), HasSubstr("f32[524288, 524288]"), HasSubstr("1.0 TiB")));
    EXPECT_THAT(message, AllOf(HasSubstr("in all"), HasSubstr("train.batch")));
    Variables small;
    EXPECT_TRUE(small.add("v", four(1)).ok());
    auto e = *make_execution(rt, little, {.variables = &small});
    EXPECT_TRUE(e->feed("x", four(1)).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    EXPECT_EQ(bits(*e->fetch("y")), bits(squared(1, 1)));
  });
  EXPECT_EQ((*gpu())->bytes_in_use(), before);
}

TEST_F(DeviceMemory, OfAThousandGraphsNothingIsLeft) {
  const std::size_t before = (*gpu())->bytes_in_use();
  on_real([&](Runtime& rt) -> Task<void> {
    for (std::int64_t n = 1; n <= 1000; ++n) {
      Graph graph;
      Builder b(graph);
      b.output("y", b.add(b.input("x", kF32, {n}), b.variable("v", kF32, {n})));
      const std::vector<float> ones(static_cast<std::size_t>(n), 1.0F);
      Variables v;
      EXPECT_TRUE(v.add("v", tensor(ones)).ok());
      auto e = *make_execution(rt, compiled(graph), {.variables = &v});
      EXPECT_TRUE(e->feed("x", tensor(ones)).ok());
      EXPECT_GT((*gpu())->bytes_in_use(), before);
      const Status ran = co_await e->run();
      EXPECT_TRUE(ran.ok()) << n << ": " << ran.to_string();
      if (!ran.ok()) break;
      EXPECT_EQ(e->fetch("y")->data<float>()[n - 1], 2.0F);
    }
  });
  EXPECT_EQ((*gpu())->bytes_in_use(), before);
}

// Needs no GPU, only the compiler of kernels.
TEST(DeviceCompile, AnOpWithoutACudaKernelIsRefusedByName) {
  auto opened = kernel::cuda::CudaDevice::open_for_compiling();
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  Graph graph;
  Builder b(graph);
  std::vector<Value> in;
  for (int i = 0; i < 7; ++i) in.push_back(b.input(fmt::format("x{}", i), kF32, {1, 1, 2, 2}));
  b.output("y", b.add_node(op::kAttentionGradGrad, in, {}, "twice_differentiated"));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  const auto refused = compile(graph, {.device = *opened});
  EXPECT_EQ(refused.status().code(), Code::kNotFound);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("attention_grad_grad"), HasSubstr("twice_differentiated"),
                    HasSubstr("f32[1, 1, 2, 2]"), HasSubstr("--device cpu")));
}

}  // namespace
}  // namespace trireme::exec
