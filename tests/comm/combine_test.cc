// Reductions of every dtype: element by element, and over ranks against a serial computation.
#include "trireme/comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/comm/ranks.h"
#include "trireme/tensor/half.h"

namespace trireme::comm {
namespace {

using collective::Reduction;

template <typename T>
T combined(Reduction reduction, T a, T b, bool src_left = false) {
  const Result<Combine> c = find_combine(DTypeOf<T>::value, reduction);
  EXPECT_TRUE(c.ok()) << c.status().to_string();
  c->apply(reinterpret_cast<std::byte*>(&a), reinterpret_cast<const std::byte*>(&b), 1, src_left);
  return a;
}

TEST(Combine, RoundsSixteenBitSumsOncePerAddition) {
  // 256 + 1 is not a bf16: it rounds to even, and so does the next 1.
  EXPECT_EQ(static_cast<float>(combined<BFloat16>(Reduction::kSum, 256.0F, 1.0F)), 256.0F);
  EXPECT_EQ(static_cast<float>(combined<BFloat16>(Reduction::kSum, 256.0F, 3.0F)), 260.0F);
  EXPECT_EQ(static_cast<float>(combined<Float16>(Reduction::kSum, 2048.0F, 1.0F)), 2048.0F);
  EXPECT_EQ(static_cast<float>(combined<Float16>(Reduction::kSum, 65504.0F, 65504.0F)),
            std::numeric_limits<float>::infinity());
}

TEST(Combine, PassesNaNOnFromEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction r : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    EXPECT_TRUE(std::isnan(combined<float>(r, nan, 1)));
    EXPECT_TRUE(std::isnan(combined<float>(r, 1, nan)));
    EXPECT_TRUE(std::isnan(static_cast<float>(combined<BFloat16>(r, 1.0F, nan, true))));
  }
}

TEST(Combine, WrapsIntegersAndTreatsBooleansAsLogic) {
  EXPECT_EQ(combined<std::uint8_t>(Reduction::kSum, 250, 10), 4);
  EXPECT_EQ(combined<std::int32_t>(Reduction::kSum, std::numeric_limits<std::int32_t>::max(), 1),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(combined<bool>(Reduction::kMax, false, true), true);
  EXPECT_EQ(combined<bool>(Reduction::kMin, false, true), false);
}

TEST(Combine, RefusesMeansOfIntegersAndSumsOfBooleans) {
  EXPECT_EQ(find_combine(DType::kBool, Reduction::kSum).status().code(), Code::kInvalid);
  EXPECT_EQ(find_combine(DType::kBool, Reduction::kMean).status().code(), Code::kInvalid);
  for (const DType d : {DType::kI32, DType::kI64, DType::kU8})
    EXPECT_EQ(find_combine(d, Reduction::kMean).status().code(), Code::kInvalid);
}

constexpr int kWorld = 4;
constexpr std::int64_t kCount = 37;

// In rank order with every addition rounded to T: what a chain does.
template <typename T>
std::vector<T> serial(Reduction reduction) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < kCount; ++i) {
    T x = static_cast<T>(static_cast<float>(i % 5));
    for (int r = 1; r < kWorld; ++r) {
      const auto y = static_cast<T>(static_cast<float>((i + 3 * r) % 5));
      if (reduction == Reduction::kMax)
        x = x > y ? x : y;
      else if (reduction == Reduction::kMin)
        x = x < y ? x : y;
      else
        x = static_cast<T>(x + y);
    }
    if (reduction == Reduction::kMean) x = static_cast<T>(x / static_cast<T>(kWorld));
    out.push_back(x);
  }
  return out;
}

template <typename T>
runtime::Task<void> reduce_every_way(Group& group) {
  std::uint16_t slot = 0;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
    if (!find_combine(DTypeOf<T>::value, reduction).ok()) continue;
    for (const char* algorithm : {"chain", "ring", "fixed-tree", "rabenseifner", "two-shot"}) {
      std::vector<T> mine;
      for (std::int64_t i = 0; i < kCount; ++i)
        mine.push_back(static_cast<T>(static_cast<float>((i + 3 * group.rank()) % 5)));
      const Tensor data = Tensor::from<T>(mine, Shape{kCount});
      Call call;
      call.slot = slot++;
      call.algorithm = algorithm;
      call.reduction = reduction;
      const Status s = co_await group.allreduce(call, data);
      EXPECT_TRUE(s.ok()) << s.to_string();
      const auto got = data.values<T>();
      const std::vector<T> want = serial<T>(reduction);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(static_cast<double>(got[i]), static_cast<double>(want[i]))
            << dtype_name(DTypeOf<T>::value) << " " << collective::reduction_name(reduction) << " by "
            << algorithm << ", element " << i;
        if (::testing::Test::HasFailure()) co_return;
      }
    }
  }
  const Status left = co_await group.leave();
  EXPECT_TRUE(left.ok()) << left.to_string();
}

template <typename T>
void expect_reduced_over_ranks() {
  const testing::Body body = [](runtime::Runtime&, Group& group) { return reduce_every_way<T>(group); };
  testing::RankOptions options;
  options.world = kWorld;
  testing::run_on_threads(options, body);
  testing::expect_finished(testing::run_virtual(options, {}, body));
}

TEST(Combine, ReducesEveryDtypeOverRanks) {
  expect_reduced_over_ranks<float>();
  expect_reduced_over_ranks<double>();
  expect_reduced_over_ranks<BFloat16>();
  expect_reduced_over_ranks<Float16>();
  expect_reduced_over_ranks<std::int64_t>();
  expect_reduced_over_ranks<std::int32_t>();
  expect_reduced_over_ranks<std::uint8_t>();
}

TEST(Combine, ADifferentReductionOrDtypeIsAMismatch) {
  for (const bool dtype : {false, true}) {
    std::vector<Status> out(3);
    testing::RankOptions options;
    options.world = 3;
    testing::run_on_threads(options, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      Call call;
      call.algorithm = "ring";
      const bool odd = group.rank() == 1;
      if (odd && !dtype) call.reduction = Reduction::kMax;
      const std::vector<std::int32_t> whole(30, 1);
      const Tensor data = odd && dtype ? Tensor::from<std::int32_t>(whole, Shape{30})
                                       : testing::tensor_of(std::vector<float>(30, 1));
      out[static_cast<std::size_t>(group.rank())] = co_await group.allreduce(call, data);
      (void)co_await group.leave();
    });
    for (const Status& s : out) {
      EXPECT_EQ(s.code(), Code::kMismatch) << s.to_string();
      EXPECT_EQ(s.context().peer, 1) << s.to_string();
    }
  }
}

}  // namespace
}  // namespace trireme::comm
