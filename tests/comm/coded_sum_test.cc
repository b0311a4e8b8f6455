// Sums of which only encodings travel, on virtual clusters of one to nine ranks.
#include "trireme/comm/sum/coded_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"

namespace trireme::comm::testing {
namespace {

using collective::LeafRun;
using runtime::Task;

constexpr std::int64_t kElems = 700;
constexpr CodedSlots kSlots{.encodings = {3, 5}, .sizes = {4, 6}};

std::vector<LeafRun> runs_of(std::int32_t shards, int world) {
  std::vector<LeafRun> runs;
  for (int r = 0; r < world; ++r) {
    const std::int32_t begin = shards * r / world, end = shards * (r + 1) / world;
    runs.push_back({begin, end - begin});
  }
  return runs;
}

// Few values, of very different size: another order of additions has other bits.
std::vector<float> sparse_vector(std::int32_t shard, std::int64_t step) {
  Philox random(static_cast<std::uint64_t>(shard) + 1, static_cast<std::uint64_t>(step));
  std::vector<float> v(kElems);
  for (float& x : v)
    if (random.next_below(10) == 0)
      x = std::ldexp(random.next_uniform() - 0.5F, static_cast<int>(random.next_below(16)));
  // Between the tensors there is nothing.
  std::fill(v.begin() + 500, v.begin() + 512, 0.0F);
  std::fill(v.begin() + 532, v.begin() + 540, 0.0F);
  v[543] = 0;
  return v;
}

std::vector<float> tree_sum(std::int32_t shards, std::int64_t step) {
  std::vector<std::vector<float>> all;
  for (std::int32_t s = 0; s < shards; ++s) all.push_back(sparse_vector(s, step));
  for (std::size_t stride = 1; stride < all.size(); stride *= 2)
    for (std::size_t i = 0; i + stride < all.size(); i += 2 * stride)
      for (std::size_t k = 0; k < kElems; ++k) all[i][k] += all[i + stride][k];
  return all[0];
}

struct Case {
  std::string codec = "nonzero";
  std::string sum = "gather";
  std::int32_t shards = 1;
  int world = 1;
  codec::Options options = {};
  bool phantom = false;
  std::vector<double>* sent = nullptr;                         // bytes, per rank
  std::vector<std::vector<net::SendRecord>>* sends = nullptr;  // messages, per rank
};

// The sums of three steps as rank 0 and the last rank have them; equal, or the test fails.
std::vector<std::vector<float>> sums_of(const Case& c) {
  std::vector<std::vector<float>> sums(3);
  RankOptions options;
  options.world = c.world;
  options.sends = c.sends;
  const std::vector<LeafRun> runs = runs_of(c.shards, c.world);
  runtime::WorldSpec spec;
  spec.phantom = c.phantom;
  const VirtualResult result =
      run_virtual(options, spec, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
        CodedSumOptions o;
        o.coding.row = *codec::find_codec(c.codec);
        o.coding.options = c.options;
        o.coding.feedback = o.coding.row->needs_feedback;
        o.packing = codec::packing_of({{0, 500}, {512, 20}}, {{540, 3}, {544, 156}}, 64);
        o.num_elems = kElems;
        o.num_shards = c.shards;
        const std::unique_ptr<CodedSum> sum = (*find_sum(c.sum))->make_coded(rt, group, o);
        const LeafRun own = runs[static_cast<std::size_t>(group.rank())];
        EXPECT_TRUE(sum->take_shards(own).ok());
        for (std::uint32_t step = 0; step < 3; ++step) {
          std::vector<Tensor> shards;
          for (std::int32_t s = own.first; s < own.first + own.count; ++s)
            shards.push_back(c.phantom ? phantom_of(kElems) : tensor_of(sparse_vector(s, step)));
          const Tensor first = shards[0];
          EXPECT_EQ(first.is_phantom(), c.phantom);
          CodedCall call;
          call.step = step;
          call.slots = kSlots;
          call.label = "test";
          call.owners = runs;
          const Status status = co_await sum->sum(std::move(call), std::move(shards));
          EXPECT_TRUE(status.ok()) << status.to_string();
          if (c.phantom) continue;
          const std::vector<float> got = values_of(first);
          if (sums[step].empty()) sums[step] = got;
          EXPECT_EQ(got, sums[step]) << "rank " << group.rank();
        }
        Call end;  // nobody goes while others may still ask
        end.step = 4;
        const Status met = co_await group.barrier(std::move(end));
        EXPECT_TRUE(met.ok()) << met.to_string();
        if (c.sent != nullptr)
          (*c.sent)[static_cast<std::size_t>(group.rank())] = static_cast<double>(group.stats().bytes_sent);
      });
  expect_finished(result);
  return sums;
}

TEST(CodedSum, OfExactEncodingsEqualsTheDenseTreeInWorldsOfOneToNine) {
  for (int world = 1; world <= 9; ++world)
    for (const char* way : {"gather", "split", "sparse", "doubling"})
      for (const std::int32_t shards : {world, world + 3}) {
        const auto sums = sums_of({.sum = way, .shards = shards, .world = world});
        for (std::int64_t step = 0; step < 3; ++step)
          ASSERT_EQ(sums[static_cast<std::size_t>(step)], tree_sum(shards, step))
              << world << " ranks, " << shards;
      }
}

TEST(CodedSum, OfLossyEncodingsDoesNotDependOnTheWorld) {
  for (const char* codec : {"topk", "1bit", "qsgd", "threshold"})
    for (const char* way : {"gather", "split", "sparse", "doubling"}) {
      Case c{.codec = codec, .sum = way, .shards = 6, .world = 1, .options = {{"fraction", 0.05}}};
      const auto alone = sums_of(c);
      for (const int world : {2, 4, 6}) {
        c.world = world;
        EXPECT_EQ(sums_of(c), alone) << codec << " " << world;
      }
    }
}

// The same messages in the same order: gathered or in rounds.
TEST(CodedSum, ByDoublingHasTheBitsOfTheGatheredSum) {
  for (const char* codec : {"topk", "randomk", "threshold", "fp16", "terngrad"})
    for (const int world : {2, 3, 5, 6, 8}) {
      Case c{.codec = codec,
             .shards = 7 + world % 2,
             .world = std::min(world, 7),
             .options = {{"fraction", 0.05}}};
      const auto gathered = sums_of(c);
      c.sum = "doubling";
      EXPECT_EQ(sums_of(c), gathered) << codec << ", " << world;
    }
}

TEST(CodedSum, NumbersTheMessagesOfItsTurnsAsItIsTold) {
  const auto slots_of = [](const char* way) {
    std::vector<std::vector<net::SendRecord>> sends(3);
    sums_of({.sum = way, .shards = 3, .world = 3, .sends = &sends});
    std::set<int> slots;
    for (const auto& of_rank : sends)
      for (const net::SendRecord& s : of_rank)
        if (s.id.slot != 0) slots.insert(s.id.slot);  // 0: the last barrier
    return slots;
  };
  EXPECT_EQ(slots_of("gather"), (std::set<int>{3, 4}));
  EXPECT_EQ(slots_of("split"), (std::set<int>{3, 4, 5, 6}));
}

// What travels has the size that it has with values: to the byte where a codec's size follows from the
// number of values, by its own estimate where it depends on them.
TEST(CodedSum, OfPhantomsMovesSizesOnly) {
  for (const codec::CodecRow& row : codec::codec_table())
    for (const char* way : {"gather", "split", "sparse", "doubling"})
      for (const int world : {1, 3, 4}) {
        SCOPED_TRACE(fmt::format("{}, {}, {} ranks", row.name, way, world));
        std::vector<double> real(static_cast<std::size_t>(world)), phantom = real;
        Case c{.codec = row.name, .sum = way, .shards = 6, .world = world};
        c.sent = &real;
        sums_of(c);
        c.sent = &phantom;
        c.phantom = true;
        for (const std::vector<float>& sum : sums_of(c)) EXPECT_TRUE(sum.empty());
        for (std::size_t r = 0; r < real.size(); ++r) {
          EXPECT_EQ(phantom[r] > 0, world > 1);
          // What is sent once has the size of a real message, but for codecs that count what they send
          // (nonzero) and for top-k's ties; sums on their way (sparse, doubling) grow by an estimate.
          const bool once = c.sum == "gather" || c.sum == "split";
          const bool counts = std::string_view(row.name) == "nonzero";
          const double off = once && !counts ? 0.05 : 2.0;
          EXPECT_LE(phantom[r], real[r] * (1 + off));
          EXPECT_LE(real[r], phantom[r] * (1 + off));
        }
      }
}

}  // namespace
}  // namespace trireme::comm::testing
