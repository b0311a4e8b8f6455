// Sums over ranks of vectors on a GPU: ranks are threads that share it.
#include "trireme/comm/device/device_sum.h"

#include <gmock/gmock.h>

#include "tests/comm/ranks.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/comm/device/device_parts.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {
namespace {

using runtime::Task;
using ::testing::HasSubstr;

std::string why_no_gpu() {
  static const auto opened = kernel::cuda::open_device(0);
  return opened.ok() ? "" : opened.status().message();
}

std::vector<collective::LeafRun> even_runs(std::int32_t leaves, int world) {
  std::vector<collective::LeafRun> runs;
  std::int32_t first = 0;
  for (int r = 0; r < world; ++r) {
    const std::int32_t count = leaves / world + (r < leaves % world ? 1 : 0);
    runs.push_back({first, count});
    first += count;
  }
  return runs;
}

// Whose sum depends on the order.
float value_of(std::int32_t leaf, std::int64_t i) {
  return (leaf % 2 == 0 ? 1e7F : -1e7F) + 0.37F * static_cast<float>((leaf + 1) * (i % 97));
}

float tree(std::int32_t first, std::int32_t level, std::int32_t leaves, std::int64_t i) {
  if (level == 0) return value_of(first, i);
  const std::int32_t half = 1 << (level - 1);
  const float left = tree(first, level - 1, leaves, i);
  return first + half < leaves ? left + tree(first + half, level - 1, leaves, i) : left;
}

struct OneSum {
  int world = 1;
  std::int32_t leaves = 1;
  std::string method = "auto";
  std::vector<std::int64_t> elems = {1000, 70'003};
};

Task<Status> sum_here(runtime::Runtime& rt, Group& group, const OneSum& one, std::string expected_way) {
  TR_CO_ASSIGN_OR_RETURN(std::shared_ptr<kernel::cuda::CudaDevice> opened, kernel::cuda::open_device(0));
  Device* const gpu = &kernel::cuda::as_device(*opened);
  DeviceSumOptions options;
  options.device = std::shared_ptr<Device>(std::move(opened), gpu);
  options.method = one.method;
  options.one_host = options.one_process = true;
  options.same_bits = one.method != "nccl";
  options.vector_elems = one.elems;
  options.leaf_runs = even_runs(one.leaves, one.world);
  options.num_leaves = one.leaves;
  options.setup_slot = 500;
  const collective::LeafRun run = options.leaf_runs[static_cast<std::size_t>(group.rank())];
  TR_CO_ASSIGN_OR_RETURN(const auto sum, co_await make_device_sum(rt, group, options));
  EXPECT_EQ(sum->method(), expected_way);
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (std::size_t v = 0; v < one.elems.size(); ++v)
      for (std::int32_t s = 0; s < run.count; ++s) {
        const Tensor host = *Tensor::allocate(cpu_device(), {DType::kF32, {one.elems[v]}});
        for (std::int64_t i = 0; i < one.elems[v]; ++i) host.data<float>()[i] = value_of(run.first + s, i);
        TR_CO_RETURN_IF_ERROR(
            gpu->copy(host.buffer(), sum->memory(static_cast<std::size_t>(s), v).buffer(), nullptr));
      }
    std::vector<Task<Status>> both;
    for (std::size_t v = 0; v < one.elems.size(); ++v) {
      DeviceCall call;
      call.step = step;
      call.ready_slot = static_cast<std::uint16_t>(v);
      call.done_slot = static_cast<std::uint16_t>(v + one.elems.size());
      call.label = fmt::format("vector {}", v);
      call.vector = v;
      both.push_back(sum->sum(std::move(call)));
    }
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt, std::move(both)));
    for (std::size_t v = 0; v < one.elems.size(); ++v) {
      const Tensor got = *Tensor::allocate(cpu_device(), {DType::kF32, {one.elems[v]}});
      TR_CO_RETURN_IF_ERROR(gpu->copy(sum->memory(0, v).buffer(), got.buffer(), nullptr));
      for (std::int64_t i = 0; i < one.elems[v]; ++i) {
        const float want = tree(0, 6, one.leaves, i), is = got.data<float>()[i];
        if (is != want)
          co_return error(Code::kInternal, "rank {}, step {}, vector {}, element {}: got {}, expected {}",
                          group.rank(), step, v, i, is, want);
      }
    }
  }
  co_return co_await sum->close();
}

void expect_sums(const OneSum& one, const std::string& method) {
  testing::RankOptions options;
  options.world = one.world;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Status status = co_await sum_here(rt, group, one, method);
    EXPECT_TRUE(status.ok()) << one.world << " ranks, " << one.leaves << " shards: " << status.to_string();
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(TreeAdditions, AreThoseOfTheFixedTree) {
  const auto text = [](collective::LeafRun run, std::int32_t leaves) {
    std::string out;
    for (const auto& a : tree_additions(run, leaves)) out += fmt::format("{}+{} ", a.left, a.right);
    return out;
  };
  EXPECT_EQ(text({0, 1}, 1), "");
  EXPECT_EQ(text({0, 2}, 2), "0+1 ");
  EXPECT_EQ(text({0, 4}, 4), "0+1 2+3 4+5 ");
  EXPECT_EQ(text({0, 5}, 5), "0+1 2+3 5+6 7+4 ");
  EXPECT_EQ(text({1, 3}, 4), "1+2 0+3 ");  // leaf 1, then leaves 2 and 3
}

TEST(DeviceSum, AddsAlongTheTreeForAnyNumberOfRanks) {
  TR_NEEDS_GPU(why_no_gpu());
  for (const std::int32_t leaves : {1, 4, 5, 8})
    for (const int world : {1, 2, 3, 4})
      if (world <= leaves) expect_sums({world, leaves}, world == 1 ? "alone" : "mapped");
}

TEST(DeviceSum, VectorsOfFewElementsAreAddedToo) {
  TR_NEEDS_GPU(why_no_gpu());
  expect_sums({3, 4, "mapped", {1, 3, 16, 17}}, "mapped");
}

bool is_emulated() {
  const auto opened = kernel::cuda::open_device(0);
  return opened.ok() && kernel::cuda::as_device(**opened).name() == "emulated GPU";
}

// The library of the machine, where it has one: one rank is all that NCCL runs on a single GPU. The emulator
// comes with the made-up one, which takes more. Two ranks add in the tree's order.
TEST(DeviceSum, NcclAddsWhatRanksHaveAdded) {
  TR_NEEDS_GPU(why_no_gpu());
  const auto library = NcclLibrary::load();
  if (!library.ok()) GTEST_SKIP() << library.status().message();
  expect_sums({1, 1, "nccl"}, "nccl");
  expect_sums({1, 4, "nccl"}, "nccl");
  if (!is_emulated()) return;
  expect_sums({2, 2, "nccl"}, "nccl");
  expect_sums({2, 4, "nccl"}, "nccl");
}

TEST(DeviceSum, NcclThatIsMissingIsAnErrorWhereItWasAskedFor) {
  TR_NEEDS_GPU(why_no_gpu());
  testing::RankOptions options;
  options.world = 2;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    DeviceSumOptions how;
    auto opened = kernel::cuda::open_device(0);
    Device* const gpu = &kernel::cuda::as_device(**opened);
    how.device = std::shared_ptr<Device>(std::move(*opened), gpu);
    how.method = "nccl";
    how.nccl_library = "libnccl-that-is-not-there.so";
    how.vector_elems = {10};
    how.leaf_runs = even_runs(2, 2);
    how.num_leaves = 2;
    how.setup_slot = 500;
    const auto sum = co_await make_device_sum(rt, group, std::move(how));
    EXPECT_EQ(sum.status().code(), Code::kUnavailable);
    EXPECT_THAT(sum.status().message(), HasSubstr("libnccl-that-is-not-there.so"));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

}  // namespace
}  // namespace trireme::comm
