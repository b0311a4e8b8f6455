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
