#include "trireme/parallel/cells.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::parallel {
namespace {

TEST(CellsOf, AllRanksAreEveryCellOnceInOrder) {
  const LogicalMesh logical{7, 3, 4};
  for (int data = 1; data <= 4; ++data)
    for (int model = 1; model <= 3; ++model)
      for (int stage = 1; stage <= 4; ++stage) {
        const CellOwners owners{even_runs(7, data), even_runs(3, model), even_runs(4, stage)};
        ASSERT_TRUE(check_owners(owners, logical).ok());
        const Mesh mesh = mesh_of(owners);
        ASSERT_EQ(mesh.num_ranks(), data * model * stage);
        std::map<Cell, int> holders;
        for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
          const std::vector<Cell> cells = cells_of(owners, rank);
          EXPECT_TRUE(std::is_sorted(cells.begin(), cells.end()));
          for (const Cell& c : cells) ++holders[c];
        }
        EXPECT_EQ(holders.size(), 7U * 3 * 4);
        for (const auto& [cell, n] : holders) EXPECT_EQ(n, 1) << cell.to_text();
      }
}

TEST(MeshOf, WholeReplicasIsTheDataAxisAlone) {
  const CellOwners owners{even_runs(6, 4), {{0, 1}}, {{0, 1}}};
  EXPECT_EQ(mesh_of(owners), data_mesh(4));
  EXPECT_EQ(cells_of(owners, 1), (std::vector<Cell>{{2, 0, 0}, {3, 0, 0}}));
  EXPECT_EQ(cells_of(owners, 1)[0].to_text(), "shard 2, tile 0, segment 0");
}

TEST(CheckOwners, RefusesRunsThatDoNotTileTheCells) {
  const LogicalMesh logical{4, 1, 1};
  const std::vector<collective::LeafRun> all{{0, 1}};
  EXPECT_TRUE(check_owners({{{0, 3}, {3, 1}}, all, all}, logical).ok());
  EXPECT_TRUE(check_owners({{{0, 4}, {4, 0}}, all, all}, logical).ok()) << "a rank without cells";
  const std::vector<CellOwners> wrong{{{{0, 3}}, all, all},          {{{0, 3}, {2, 2}}, all, all},
                                      {{{1, 3}, {0, 1}}, all, all},  {{{0, 5}}, all, all},
                                      {{{0, 5}, {5, -1}}, all, all}, {{}, all, all},
                                      {{{0, 4}}, {}, all},           {{{0, 4}}, all, {{0, 2}}}};
  for (const CellOwners& bad : wrong) EXPECT_EQ(check_owners(bad, logical).code(), Code::kInvalid);
}

TEST(EvenRuns, CoverAllCellsInOrderAndDifferByAtMostOneLongerFirst) {
  for (std::int32_t cells = 1; cells <= 20; ++cells)
    for (int owners = 1; owners <= cells; ++owners) {
      const auto runs = even_runs(cells, owners);
      ASSERT_EQ(static_cast<int>(runs.size()), owners);
      std::int32_t next = 0;
      for (std::size_t i = 0; i < runs.size(); ++i) {
        EXPECT_EQ(runs[i].first, next);
        EXPECT_EQ(runs[i].count, cells / owners + (static_cast<int>(i) < cells % owners ? 1 : 0));
        next += runs[i].count;
      }
      EXPECT_EQ(next, cells);
    }
}

}  // namespace
}  // namespace trireme::parallel
