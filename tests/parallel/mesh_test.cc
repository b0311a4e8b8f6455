#include "trireme/parallel/mesh.h"

#include <gtest/gtest.h>

namespace trireme::parallel {
namespace {

const Mesh kCube{{{"data", 2}, {"model", 3}, {"stage", 4}}};

TEST(Mesh, RanksAndCoordinatesAreInverseAndTheLastAxisVariesFastest) {
  EXPECT_EQ(kCube.num_ranks(), 24);
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(kCube.rank_of(kCube.coordinates(rank)), rank);
  EXPECT_EQ(kCube.coordinates(0), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(kCube.coordinates(1), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(kCube.coordinates(23), (std::vector<int>{1, 2, 3}));
}

TEST(Mesh, ALineHoldsTheRanksThatDifferAlongItsAxisOnly) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (int rank = 0; rank < 24; ++rank) {
      const std::vector<int> line = kCube.line(rank, axis);
      ASSERT_EQ(static_cast<int>(line.size()), kCube.axes[axis].size);
      EXPECT_EQ(line[static_cast<std::size_t>(kCube.coordinates(rank)[axis])], rank);
      for (const int other : line) EXPECT_EQ(kCube.line(other, axis), line);
    }
  EXPECT_EQ(kCube.line(5, 2), (std::vector<int>{4, 5, 6, 7}));
}

TEST(Mesh, NamesARankByItsCoordinatesWhereThereAreSeveralAxes) {
  const Mesh two{{{"data", 3}, {"model", 4}}};
  EXPECT_EQ(two.rank_text(5), "rank 5 (data 1, model 1)");
  EXPECT_EQ(data_mesh(8).rank_text(5), "rank 5");
}

TEST(Mesh, HasAReplicaPerDataCoordinateWhoseFirstRankSpeaksForIt) {
  const Mesh two{{{"data", 2}, {"model", 2}}};
  EXPECT_EQ(two.num_replicas(), 2);
  EXPECT_EQ(two.replica_of(1), 0);
  EXPECT_EQ(two.replica_of(2), 1);
  EXPECT_EQ(two.ranks_of_replica(1), (std::vector<int>{2, 3}));
  EXPECT_EQ(two.speaker_of(1), 2);
  EXPECT_TRUE(two.speaks(2));
  EXPECT_FALSE(two.speaks(3));
  EXPECT_EQ(two.peers_of(3), (std::vector<int>{1, 3}));
  EXPECT_EQ(two.place_text(3), "data 1, model 1");
  EXPECT_EQ(two.place_text(4), "");
  for (int rank = 0; rank < kCube.num_ranks(); ++rank) {
    const int replica = kCube.replica_of(rank);
    const std::vector<int> ranks = kCube.ranks_of_replica(replica);
    EXPECT_EQ(kCube.speaker_of(replica), ranks.front());
    EXPECT_EQ(kCube.peers_of(rank)[static_cast<std::size_t>(replica)], rank);
  }
}

TEST(Mesh, OfOneAxisHasReplicasThatAreRanks) {
  const Mesh plain = data_mesh(3);
  EXPECT_EQ(plain.num_replicas(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(plain.replica_of(rank), rank);
    EXPECT_EQ(plain.ranks_of_replica(rank), std::vector<int>{rank});
    EXPECT_TRUE(plain.speaks(rank));
    EXPECT_EQ(plain.peers_of(rank), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(plain.place_text(rank), "");
  }
}

TEST(Mesh, AnAxisThatIsNotThereHasOneCoordinate) {
  EXPECT_EQ(kCube.size_of("model"), 3);
  EXPECT_EQ(kCube.size_of("expert"), 1);
  EXPECT_EQ(kCube.coordinate(23, "stage"), 3);
  EXPECT_EQ(kCube.coordinate(23, "expert"), 0);
  EXPECT_EQ(Mesh{}.num_ranks(), 1);
}

TEST(Mesh, WithAxesOfOneNameNoNameOrNoSizeIsRefused) {
  EXPECT_TRUE(check_mesh(kCube).ok());
  for (const Mesh& bad :
       {Mesh{{{"data", 2}, {"data", 2}}}, Mesh{{{"", 2}}}, Mesh{{{"Data", 2}}}, Mesh{{{"data", 0}}},
        Mesh{{{"data", -3}, {"model", -3}}}, Mesh{{{"data", 1 << 20}, {"model", 2}}}})
    EXPECT_EQ(check_mesh(bad).code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::parallel
