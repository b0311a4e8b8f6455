// Sums over ranks of vectors that are encoded on a GPU, beside CodedSum on the host: ranks are threads that
// share the GPU.
#include <gmock/gmock.h>

#include <bit>

#include "tests/comm/ranks.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/base/rng.h"
#include "trireme/comm/device/device_parts.h"
#include "trireme/comm/sum/coded_sum.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/tensor/half.h"

namespace trireme::comm {
namespace {

using collective::LeafRun;
using runtime::Task;

std::string why_no_gpu() {
  static const auto opened = kernel::cuda::open_device(0);
  return opened.ok() ? "" : opened.status().message();
}
bool is_emulated() {
  const auto opened = kernel::cuda::open_device(0);
  return opened.ok() && kernel::cuda::as_device(**opened).name() == "emulated GPU";
}

constexpr std::uint32_t kSteps = 4;
const std::vector<std::int64_t> kVectors = {3'000, 9'100};

std::vector<LeafRun> even_runs(std::int32_t leaves, int world) {
  std::vector<LeafRun> runs;
  for (int r = 0; r < world; ++r) {
    const std::int32_t begin = leaves * r / world, end = leaves * (r + 1) / world;
    runs.push_back({begin, end - begin});
  }
  return runs;
}

codec::Packing packing_of(std::size_t vector) {
  const std::int64_t n = kVectors[vector];
  return codec::packing_of({{0, n / 2 + 1}, {n / 2 + 8, n / 3}}, {{n - 20, 20}}, 64);
}

Tensor values_of(std::int32_t shard, std::uint32_t step, std::size_t vector) {
  const Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {kVectors[vector]}});
  Philox random(100 * step + static_cast<std::uint64_t>(shard), vector);
  for (float& x : t.values<float>()) x = random.next_normal();
  return t;
}

struct Case {
  std::string codec = "bf16", method = "mapped";
  int world = 1;
  std::int32_t leaves = 1;
  bool feedback = true;
  std::int64_t dense_steps = 0, warmup_steps = 0;
  double momentum = 0;
  bool adds_halves = false;  // NCCL does: sums are rounded to bf16, and nothing is framed
};

codec::Coding coding_of(const Case& c) {
  codec::Coding coding;
  coding.row = *codec::find_codec(c.codec);
  coding.options.set("fraction", 0.02);
  coding.feedback = c.feedback;
  coding.dense_steps = c.dense_steps;
  coding.warmup_steps = c.warmup_steps;
  coding.momentum = c.momentum;
  return coding;
}

// Both sides of one rank.
class Rank {
 public:
  Rank(runtime::Runtime& rt, Group& group, const Case& c)
      : rt_(rt), group_(group), c_(c), runs_(even_runs(c.leaves, c.world)) {}

  Task<Status> run() {
    TR_CO_ASSIGN_OR_RETURN(std::shared_ptr<kernel::cuda::CudaDevice> opened, kernel::cuda::open_device(0));
    gpu_ = &kernel::cuda::as_device(*opened);
    DeviceSumOptions options;
    options.device = std::shared_ptr<Device>(std::move(opened), gpu_);
    options.method = c_.method;
    options.one_host = options.one_process = true;
    options.vector_elems = kVectors;
    options.leaf_runs = runs_;
    options.num_leaves = c_.leaves;
    options.setup_slot = 500;
    options.coding = coding_of(c_);
    for (std::size_t v = 0; v < kVectors.size(); ++v) {
      options.packings.push_back(packing_of(v));
      CodedSumOptions host;
      host.coding = options.coding;
      host.packing = options.packings[v];
      host.num_elems = kVectors[v];
      host.num_shards = c_.leaves;
      on_host_.push_back((*find_sum("gather"))->make_coded(rt_, group_, std::move(host)));
      TR_CO_RETURN_IF_ERROR(on_host_.back()->take_shards(own()));
    }
    TR_CO_ASSIGN_OR_RETURN(on_gpu_, co_await make_device_sum(rt_, group_, options));
    EXPECT_EQ(on_gpu_->method(), c_.world == 1 && c_.method != "nccl" ? "alone" : c_.method);
    for (std::uint32_t step = 0; step < kSteps; ++step)
      for (std::size_t v = 0; v < kVectors.size(); ++v) TR_CO_RETURN_IF_ERROR(co_await compare(step, v));
    if (c_.dense_steps == 0 && !c_.adds_halves) {
      EXPECT_EQ(on_gpu_->coding()->bytes, host_bytes());
    }
    co_return co_await on_gpu_->close();
  }

 private:
  LeafRun own() const { return runs_[static_cast<std::size_t>(group_.rank())]; }
  double host_bytes() const {
    double sum = 0;
    for (const auto& host : on_host_) sum += host->stats().bytes;
    return sum;
  }

  Task<Status> compare(std::uint32_t step, std::size_t v) {
    std::vector<Tensor> shards;
    for (std::int32_t s = 0; s < own().count; ++s) {
      shards.push_back(values_of(own().first + s, step, v));
      const Tensor there = on_gpu_->memory(static_cast<std::size_t>(s), v);
      TR_CO_RETURN_IF_ERROR(gpu_->copy(shards.back().buffer(), there.buffer(), nullptr));
    }
    DeviceCall call;
    call.step = step;
    call.ready_slot = static_cast<std::uint16_t>(v);
    call.done_slot = static_cast<std::uint16_t>(v + kVectors.size());
    call.label = fmt::format("vector {}", v);
    call.vector = v;
    TR_CO_RETURN_IF_ERROR(co_await on_gpu_->sum(std::move(call)));
    const Tensor sum = shards[0];
    if (on_host_[v]->encodes_at(step)) {
      CodedCall coded;
      coded.step = step;
      coded.slots.encodings[0] = static_cast<std::uint16_t>(v + 10);
      coded.slots.sizes[0] = static_cast<std::uint16_t>(v + 20);
      coded.label = "host";
      coded.owners = runs_;
      TR_CO_RETURN_IF_ERROR(co_await on_host_[v]->sum(std::move(coded), std::move(shards)));
    } else {
      TR_CO_RETURN_IF_ERROR(co_await on_host_[v]->watch(step, std::move(shards)));
      add_all(step, v, sum);
    }
    expect_same(on_gpu_->memory(0, v), sum, v, "sum", step);
    for (const auto& [name, kept] : on_host_[v]->state())
      for (const auto& [gpu_name, there] : on_gpu_->state())
        if (gpu_name == fmt::format("{}/{}", name, v)) {
          expect_same(there, kept, v, name.c_str(), step);
          ++states_;
        }
    EXPECT_EQ(states_ > 0, c_.feedback || c_.momentum > 0);
    co_return Status();
  }

  // Along the tree.
  void add_all(std::uint32_t step, std::size_t v, const Tensor& to) const {
    std::vector<Tensor> all;
    for (std::int32_t s = 0; s < c_.leaves; ++s) all.push_back(values_of(s, step, v));
    for (std::size_t stride = 1; stride < all.size(); stride *= 2)
      for (std::size_t i = 0; i + stride < all.size(); i += 2 * stride)
        for (std::int64_t k = 0; k < kVectors[v]; ++k)
          all[i].data<float>()[k] += all[i + stride].data<float>()[k];
    std::copy_n(all[0].data<float>(), kVectors[v], to.data<float>());
  }

  // Compares what is sent; what lies between pieces is nobody's.
  void expect_same(const Tensor& there, const Tensor& want, std::size_t v, const char* what,
                   std::uint32_t step) const {
    const Tensor got = *Tensor::allocate(cpu_device(), want.type());
    EXPECT_TRUE(gpu_->copy(there.buffer(), got.buffer(), nullptr).ok());
    const codec::Packing packing = packing_of(v);
    const std::int64_t rows = want.shape().num_elems() / kVectors[v];
    for (const auto* list : {&packing.coded, &packing.plain})
      for (const codec::ElementRange& p : *list)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
            const float a = got.data<float>()[r * kVectors[v] + i];
            float b = want.data<float>()[r * kVectors[v] + i];
            if (c_.adds_halves && what == std::string_view("sum") && list == &packing.coded)
              b = bf16_value(bf16_bits(b));
            if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) continue;
            ADD_FAILURE() << what << " of vector " << v << ", step " << step << ", element " << i << ": got "
                          << a << ", expected " << b;
            return;
          }
  }

  runtime::Runtime& rt_;
  Group& group_;
  const Case c_;
  const std::vector<LeafRun> runs_;
  Device* gpu_ = nullptr;
  std::unique_ptr<DeviceSum> on_gpu_;
  std::vector<std::unique_ptr<CodedSum>> on_host_;
  int states_ = 0;
};

void expect_the_sums_of_the_host(const Case& c) {
  SCOPED_TRACE(fmt::format("{} {}: {} ranks, {} shards", c.codec, c.method, c.world, c.leaves));
  testing::RankOptions options;
  options.world = c.world;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    Rank rank(rt, group, c);
    const Status status = co_await rank.run();
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

constexpr const char* kCodecs[] = {"fp16", "bf16", "1bit", "topk"};

TEST(DeviceCodedSum, HasTheBitsOfTheHostForAnyNumberOfRanks) {
  TR_NEEDS_GPU(why_no_gpu());
  for (const char* codec : kCodecs)
    for (const int world : {1, 2, 3})
      for (const char* method : {"mapped", "staged"})
        expect_the_sums_of_the_host({.codec = codec, .method = method, .world = world, .leaves = 4});
}

TEST(DeviceCodedSum, FirstStepsMayBeDenseAndFractionsMayFall) {
  TR_NEEDS_GPU(why_no_gpu());
  for (const char* method : {"mapped", "staged"}) {
    expect_the_sums_of_the_host(
        {.codec = "1bit", .method = method, .world = 2, .leaves = 3, .dense_steps = 2, .momentum = 0.9});
    expect_the_sums_of_the_host({.codec = "topk",
                                 .method = method,
                                 .world = 2,
                                 .leaves = 2,
                                 .dense_steps = 1,
                                 .warmup_steps = 2,
                                 .momentum = 0.9});
  }
  expect_the_sums_of_the_host({.codec = "bf16", .world = 1, .leaves = 1, .feedback = false});
}

TEST(DeviceCodedSum, NcclGathersMessages) {
  TR_NEEDS_GPU(why_no_gpu());
  const auto library = NcclLibrary::load();
  if (!library.ok() && !is_emulated()) GTEST_SKIP() << library.status().message();
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  for (const char* codec : kCodecs) {
    expect_the_sums_of_the_host({.codec = codec, .method = "nccl", .world = 1, .leaves = 2});
    if (is_emulated())
      expect_the_sums_of_the_host({.codec = codec, .method = "nccl", .world = 2, .leaves = 3});
  }
}

TEST(DeviceCodedSum, NcclAddsShorterFloatsAsSuchWhereEveryRankHasOneShard) {
  TR_NEEDS_GPU(why_no_gpu());
  const auto library = NcclLibrary::load();
  if (!library.ok() && !is_emulated()) GTEST_SKIP() << library.status().message();
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  expect_the_sums_of_the_host(
      {.codec = "fp16", .method = "nccl", .world = 1, .leaves = 2, .feedback = false});
  for (const int world : {1, 2})
    if (world == 1 || is_emulated())
      expect_the_sums_of_the_host(
          {.codec = "bf16", .method = "nccl", .world = world, .leaves = world, .adds_halves = true});
}

}  // namespace
}  // namespace trireme::comm
