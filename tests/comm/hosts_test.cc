// What ranks know of each other's hosts, and memory that some of them share.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/comm/ranks.h"

namespace trireme::comm {
namespace {

using runtime::Task;

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "trireme-hosts-XXXXXX").string();
  Folder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Every rank of 3, in the whole group and in a sub-group of the last two.
testing::Body expect_hosts(bool same) {
  return [same](runtime::Runtime&, Group& group) -> Task<void> {
    for (int peer = 0; peer < group.world(); ++peer)
      EXPECT_EQ(group.same_host(peer), same || peer == group.rank()) << peer;
    if (group.rank() > 0) {
      auto sub = *group.subgroup({2, 1}, 5);
      EXPECT_TRUE(sub->same_host(sub->rank()));
      EXPECT_EQ(sub->same_host(1 - sub->rank()), same);
      EXPECT_TRUE((co_await sub->leave()).ok());
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  };
}

TEST(Hosts, RanksKnowWhoSharesTheirs) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    const Folder folder;
    testing::RankOptions options;
    options.world = 3;
    options.transport = transport;
    options.rendezvous = folder.path;
    testing::run_on_threads(options, expect_hosts(true));
  }
}

TEST(Hosts, OfAVirtualClusterHaveOneRankEach) {
  for (const char* transport : {"inproc", "tcp"}) {
    testing::RankOptions options;
    options.world = 3;
    options.transport = transport;
    testing::expect_finished(testing::run_virtual(options, {}, expect_hosts(false)));
  }
}

// Two ranks on each of two machines, one on a third.
const std::vector<int> kMachines{0, 1, 0, 1, 2};

void run_on_machines(testing::RankOptions options, const testing::Body& body) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(3, {}, {});
  const auto world = runtime::make_virtual_world(std::move(spec));
  options.world = static_cast<int>(kMachines.size());
  options.transport = "tcp";
  for (int r = 0; r < options.world; ++r) {
    runtime::Runtime& rt =
        world->add_runtime(kMachines[static_cast<std::size_t>(r)], fmt::format("rank {}", r));
    world->start(rt, testing::run_rank(rt, r, options, body));
  }
  const auto report = world->run(600 * kSecond);
  EXPECT_TRUE(report.finished) << report.stuck;
}

TEST(Hosts, OfSeveralMachinesAreTheSameForEveryRank) {
  testing::RankOptions options;
  options.wrap = [](runtime::Runtime&, std::unique_ptr<net::Transport> inner) {
    for (int r = 0; r < inner->world(); ++r) EXPECT_EQ(inner->host_of(r), r < 4 ? r % 2 : 4);
    return inner;
  };
  run_on_machines(options, [](runtime::Runtime&, Group& group) -> Task<void> {
    const auto machine = [](int rank) { return kMachines[static_cast<std::size_t>(rank)]; };
    for (int peer = 0; peer < group.world(); ++peer)
      EXPECT_EQ(group.same_host(peer), machine(peer) == machine(group.rank()));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

// Needs the machine of every rank: a group knows them without being told.
TEST(Hosts, AreKnownToAlgorithmsThatNeedThem) {
  const testing::Body sum = [](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Tensor data = testing::tensor_of({static_cast<float>(group.rank())});
    Call call;
    call.algorithm = "hierarchical";
    const Status summed = co_await group.allreduce(call, data);
    const bool known = rt.is_virtual() && group.world() == static_cast<int>(kMachines.size());
    EXPECT_EQ(summed.ok(), known) << summed.to_string();
    EXPECT_EQ(testing::values_of(data)[0], known ? 10.0F : static_cast<float>(group.rank()));
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  run_on_machines({}, sum);
  // Where all ranks share a host or have one each there is nothing to tell.
  testing::RankOptions options;
  options.world = 3;
  testing::run_on_threads(options, sum);
  testing::expect_finished(testing::run_virtual(options, {}, sum));
}

TEST(Hosts, SubGroupsShareMemoryOfOneOfTheirRanks) {
  const testing::Body body = [](runtime::Runtime&, Group& group) -> Task<void> {
    if (group.rank() > 0) {
      auto sub = *group.subgroup({3, 1, 2}, 5);
      Call call;
      call.slot = 9;
      call.root = 1;
      const TensorType type{DType::kF32, {4}};
      const auto shared = co_await sub->share(call, type);
      EXPECT_TRUE(shared.ok()) << shared.status().to_string();
      if (sub->rank() == 1) {
        for (float& v : shared->values<float>()) v = 7;
      }
      Call written;
      written.slot = 10;
      EXPECT_TRUE((co_await sub->barrier(written)).ok());
      EXPECT_EQ(testing::values_of(*shared), std::vector<float>(4, 7));
      written.step = 1;
      EXPECT_TRUE((co_await sub->barrier(written)).ok());
      EXPECT_TRUE((co_await sub->leave()).ok());
    }
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  for (const char* transport : {"inproc", "shm"}) {
    const Folder folder;
    testing::RankOptions options;
    options.world = 4;
    options.transport = transport;
    testing::expect_finished(testing::run_virtual(options, {}, body));
    options.rendezvous = folder.path;
    testing::run_on_threads(options, body);
  }
}

}  // namespace
}  // namespace trireme::comm
