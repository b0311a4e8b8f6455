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
