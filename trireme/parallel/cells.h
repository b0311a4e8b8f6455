// Cell: the unit of computation whose arithmetic is fixed before anybody knows who runs it. Pure.
//
// A step is a grid of cells: logical shards of the batch, tiles of the layers, segments of the depth. Which
// cells there are decides the bits of the result; which rank owns which cells does not. Along each of the
// three the coordinates of a mesh axis own runs of cells: `data` of shards, `model` of tiles, `stage` of
// segments, of which a coordinate may have several runs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/parallel/mesh.h"

namespace trireme::parallel {

struct Cell {
  std::int32_t shard = 0, tile = 0, segment = 0;
  std::string to_text() const;  // "shard 3, tile 0, segment 1"
  friend auto operator<=>(const Cell&, const Cell&) = default;
};

// How many cells there are each way.
struct LogicalMesh {
  std::int32_t shards = 1, tiles = 1, segments = 1;
  friend bool operator==(const LogicalMesh&, const LogicalMesh&) = default;
};

// Per coordinate of an axis the run of cells that it owns. An axis that nobody cuts has one coordinate.
struct CellOwners {
  std::vector<collective::LeafRun> shards, tiles;
  // Runs of segments are virtual stages: of S coordinates number s has the runs s, s + S and so on.
  std::vector<collective::LeafRun> segments;
  std::int32_t virtual_stages = 1;  // of a coordinate
  int stages() const { return static_cast<int>(segments.size()) / virtual_stages; }
};

// Cuts `num_cells` into `num_owners` runs that differ by at most one in length, longer ones first.
std::vector<collective::LeafRun> even_runs(std::int32_t num_cells, int num_owners);

// The mesh of ranks that these owners are: data, then stage and model where they have several coordinates.
Mesh mesh_of(const CellOwners& owners);

// Runs tile the cells of each axis, in order.
Status check_owners(const CellOwners& owners, const LogicalMesh& logical);

// The cells of a rank of mesh_of(owners), by shard, then tile, then segment.
std::vector<Cell> cells_of(const CellOwners& owners, int rank);

}  // namespace trireme::parallel
