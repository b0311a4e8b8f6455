#include "trireme/agree/agree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::agree {
namespace {

using collective::LeafRun;
using runtime::Runtime;
using runtime::Task;
using Vector = std::vector<float>;

constexpr std::int64_t kElems = 37;

// Values of very different size and both signs, so that another order of summation gives other bits.
Vector shard_gradient(std::int32_t shard, std::uint32_t step) {
  Philox random(static_cast<std::uint64_t>(shard) + 1, step);
  Vector v(kElems);
  for (float& x : v)
    x = std::ldexp(random.next_uniform() - 0.5F, static_cast<int>(random.next_below(24)) - 12);
  return v;
}

// The sum of shards [first, first + 2^level) cut at `num_shards`, written down from its definition.
Vector tree_sum(std::int32_t first, std::int32_t width, std::int32_t num_shards, std::uint32_t step) {
  if (width == 1) return shard_gradient(first, step);
  Vector left = tree_sum(first, width / 2, num_shards, step);
  if (first + width / 2 >= num_shards) return left;
  const Vector right = tree_sum(first + width / 2, width / 2, num_shards, step);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

Vector tree_sum(std::int32_t num_shards, std::uint32_t step) {
  std::int32_t width = 1;
  while (width < num_shards) width *= 2;
  return tree_sum(0, width, num_shards, step);
}

Vector sequential_sum(std::int32_t num_shards, std::uint32_t step) {
  Vector sum = shard_gradient(0, step);
  for (std::int32_t s = 1; s < num_shards; ++s) {
    const Vector next = shard_gradient(s, step);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + next[i];
  }
  return sum;
}

bool same_bits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Cluster {
  std::vector<LeafRun> owners;
  std::int32_t num_shards = 1;
  std::string collective = "fixed-tree";
  int num_buckets = 1;                       // of one step, under way at once
  std::vector<std::vector<Vector>> results;  // [rank][bucket]
};

std::vector<Tensor> gradients_of(LeafRun run, std::uint32_t step) {
  std::vector<Tensor> shards;
  for (std::int32_t s = run.first; s < run.first + run.count; ++s)
    shards.push_back(Tensor::from<float>(shard_gradient(s, step), {kElems}));
  return shards;
}

// A sum over the shards of all ranks, each of which has written its gradients.
std::unique_ptr<comm::GradientSum> sum_of(Runtime& rt, comm::Group& group, const Cluster& cluster,
                                          std::uint16_t slot) {
  comm::SumSpec spec;
  spec.slots.first = slot;
  spec.label = fmt::format("bucket {}", slot);
  spec.num_elems = kElems;
  spec.num_shards = cluster.num_shards;
  spec.collective = cluster.collective;
  auto sum = (*comm::find_sum("tree"))->make(rt, group, std::move(spec));
  const LeafRun own = cluster.owners[static_cast<std::size_t>(group.rank())];
  EXPECT_TRUE(sum->take_shards(own).ok());
  const std::vector<Tensor> gradients = gradients_of(own, slot + 10U);
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const auto from = gradients[s].values<float>();
    std::copy(from.begin(), from.end(), sum->memory(s).values<float>().begin());
  }
  return sum;
}

Task<Status> one_bucket(Agreement& rule, comm::GradientSum& sum, Cluster& cluster, std::size_t rank,
                        std::size_t number) {
  BucketExchange bucket;
  bucket.step = static_cast<std::uint32_t>(number) + 10;
  bucket.bucket = number;
  bucket.owners = cluster.owners;
  Status status = co_await rule.exchange(std::move(bucket));
  const auto values = sum.result().values<float>();
  cluster.results[rank][number] = Vector(values.begin(), values.end());
  co_return status;
}

Task<void> rank_main(Runtime& rt, int rank, Cluster& cluster) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = static_cast<int>(cluster.owners.size());
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  EXPECT_TRUE(transport.ok()) << transport.status().to_string();
  comm::GroupOptions options;
  auto group = comm::make_group(rt, std::move(*transport), options);
  EXPECT_TRUE(group.ok());
  const auto row = find_agreement("bsp");
  RuleContext context;
  context.rt = &rt;
  context.workers = group->get();
  context.worker = (*group)->rank();
  context.num_workers = (*group)->world();
  std::vector<std::unique_ptr<comm::GradientSum>> sums;
  for (int b = 0; b < cluster.num_buckets; ++b) {
    sums.push_back(sum_of(rt, **group, cluster, static_cast<std::uint16_t>(b)));
    context.sums.push_back(sums.back().get());
  }
  const std::unique_ptr<Agreement> rule = (*row)->make(context);
  std::vector<Task<Status>> exchanges;
  for (std::size_t b = 0; b < sums.size(); ++b)
    exchanges.push_back(one_bucket(*rule, *sums[b], cluster, static_cast<std::size_t>(rank), b));
  const Status done = co_await runtime::when_all(rt, std::move(exchanges));
  EXPECT_TRUE(done.ok()) << done.to_string();
  const Status left = co_await (*group)->leave();
  EXPECT_TRUE(left.ok()) << left.to_string();
}

void run(Cluster& cluster) {
  const int world_size = static_cast<int>(cluster.owners.size());
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(world_size, {}, {});
  const auto world = runtime::make_virtual_world(spec);
  cluster.results.assign(cluster.owners.size(),
                         std::vector<Vector>(static_cast<std::size_t>(cluster.num_buckets)));
  std::vector<Runtime*> ranks;
  for (int r = 0; r < world_size; ++r) ranks.push_back(&world->add_runtime(r, "rank " + std::to_string(r)));
  for (int r = 0; r < world_size; ++r)
    world->start(*ranks[static_cast<std::size_t>(r)],
                 rank_main(*ranks[static_cast<std::size_t>(r)], r, cluster));
  const auto report = world->run(100 * kSecond);
  EXPECT_TRUE(report.finished) << report.stuck;
}

// Every way to cut [0, shards) into `world` runs of at least one.
std::vector<std::vector<LeafRun>> all_cuts(std::int32_t shards, int world, std::int32_t first = 0) {
  if (world == 1) return {{LeafRun{first, shards}}};
  std::vector<std::vector<LeafRun>> cuts;
  for (std::int32_t count = 1; count <= shards - (world - 1); ++count)
    for (auto rest : all_cuts(shards - count, world - 1, first + count)) {
      rest.insert(rest.begin(), LeafRun{first, count});
      cuts.push_back(std::move(rest));
    }
  return cuts;
}

std::string describe(const Cluster& c) {
  std::string text = fmt::format("{} shards as", c.num_shards);
  for (const LeafRun& r : c.owners) text += fmt::format(" {}", r.count);
  return text;
}

TEST(Bsp, TheTestValuesTellOrdersOfSummationApart) {
  EXPECT_TRUE(same_bits(tree_sum(2, 10), sequential_sum(2, 10)));
  for (std::int32_t shards = 4; shards <= 9; ++shards)
    EXPECT_FALSE(same_bits(tree_sum(shards, 10), sequential_sum(shards, 10))) << shards;
}

TEST(Bsp, EveryRankGetsTheFixedTreeSumBitForBitHoweverShardsAreOwned) {
  for (std::int32_t shards = 1; shards <= 9; ++shards) {
    const Vector expected = tree_sum(shards, 10);
    for (int world = 1; world <= std::min(4, static_cast<int>(shards)); ++world)
      for (const auto& owners : all_cuts(shards, world)) {
        Cluster cluster;
        cluster.owners = owners;
        cluster.num_shards = shards;
        run(cluster);
        for (const auto& of_rank : cluster.results)
          ASSERT_TRUE(same_bits(of_rank[0], expected)) << describe(cluster);
      }
  }
}

TEST(Bsp, SeveralBucketsUnderWayAtOnceDoNotMix) {
  Cluster cluster;
  cluster.owners = {{0, 3}, {3, 2}, {5, 2}};
  cluster.num_shards = 7;
  cluster.num_buckets = 5;
  run(cluster);
  for (const auto& of_rank : cluster.results)
    for (std::size_t b = 0; b < of_rank.size(); ++b)
      EXPECT_TRUE(same_bits(of_rank[b], tree_sum(7, static_cast<std::uint32_t>(b) + 10))) << b;
}

TEST(Bsp, ARingGivesEveryRankTheSameSumCloseToTheTrees) {
  for (int world = 1; world <= 4; ++world)
    for (const auto& owners : all_cuts(6, world)) {
      Cluster cluster;
      cluster.owners = owners;
      cluster.num_shards = 6;
      cluster.collective = "ring";
      run(cluster);
      const Vector expected = tree_sum(6, 10);
      Vector magnitude(kElems);
      for (std::int32_t s = 0; s < 6; ++s)
        for (std::size_t i = 0; i < magnitude.size(); ++i) magnitude[i] += std::abs(shard_gradient(s, 10)[i]);
      for (const auto& of_rank : cluster.results) {
        EXPECT_TRUE(same_bits(of_rank[0], cluster.results[0][0])) << describe(cluster);
        ASSERT_EQ(of_rank[0].size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(of_rank[0][i], expected[i], 1e-6F * magnitude[i]) << describe(cluster);
      }
    }
}

TEST(AgreementTable, NamesAreUniqueAndEveryRuleHasADocAndAPaper) {
  ASSERT_FALSE(agreement_table().empty());
  for (const AgreementRow& row : agreement_table()) {
    const auto found = find_agreement(row.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &row) << "two rules are called " << row.name;
    EXPECT_GT(std::strlen(row.doc), 10U);
    EXPECT_GT(std::strlen(row.paper), 10U);
  }
}

TEST(AgreementTable, WhoRefusesCodecsSaysWhatToSetAndSoDoesARowThatSaysNothing) {
  std::vector<AgreementRow> rows(agreement_table().begin(), agreement_table().end());
  ASSERT_NE(rows.emplace_back().no_codec, nullptr) << "a rule that encodes nothing would take any codec";
  for (const AgreementRow& row : rows)
    if (row.no_codec != nullptr) {
      EXPECT_NE(std::string_view(row.no_codec).find("use parallel."), std::string_view::npos) << row.no_codec;
    }
}

TEST(AgreementTable, AnUnknownRuleIsRefusedWithTheNamesThatExist) {
  const Status status = find_agreement("bps").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'bps'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("expected one of: bsp"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace trireme::agree
