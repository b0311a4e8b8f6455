#include "trireme/parallel/cells.h"

namespace trireme::parallel {
namespace {

using collective::LeafRun;

Status check_runs(const std::vector<LeafRun>& runs, std::int32_t cells, const char* axis, const char* what) {
  std::int32_t next = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].first != next || runs[i].count < 0 || runs[i].count > cells - next)
      return error(Code::kInvalid, "[parallel] {} {} owns {} of {} from {} on, expected runs of {} in order",
                   axis, i, runs[i].count, what, runs[i].first, cells);
    next += runs[i].count;
  }
  if (next == cells && !runs.empty()) return {};
  return error(Code::kInvalid, "[parallel] the owners along axis {} have {} {} of {}", axis, next, what,
               cells);
}

}  // namespace

std::string Cell::to_text() const {
  return fmt::format("shard {}, tile {}, segment {}", shard, tile, segment);
}

std::vector<LeafRun> even_runs(std::int32_t num_cells, int num_owners) {
  std::vector<LeafRun> runs;
  std::int32_t next = 0;
  for (int w = 0; w < num_owners; ++w) {
    const std::int32_t count = num_cells / num_owners + (w < num_cells % num_owners ? 1 : 0);
    runs.push_back({next, count});
    next += count;
  }
  return runs;
}

Mesh mesh_of(const CellOwners& owners) {
  Mesh mesh = data_mesh(static_cast<int>(owners.shards.size()));
  if (owners.stages() > 1) mesh.axes.push_back({kStageAxis, owners.stages()});
  if (owners.tiles.size() > 1) mesh.axes.push_back({kModelAxis, static_cast<int>(owners.tiles.size())});
  return mesh;
}

Status check_owners(const CellOwners& owners, const LogicalMesh& logical) {
  TR_RETURN_IF_ERROR(check_runs(owners.shards, logical.shards, kDataAxis, "shards"));
  TR_RETURN_IF_ERROR(check_runs(owners.tiles, logical.tiles, kModelAxis, "tiles"));
  if (owners.virtual_stages < 1 ||
      owners.segments.size() % static_cast<std::size_t>(owners.virtual_stages) != 0)
    return error(Code::kInvalid, "[parallel] {} runs of segments, expected {} for each stage",
                 owners.segments.size(), owners.virtual_stages);
  return check_runs(owners.segments, logical.segments, kStageAxis, "segments");
}

std::vector<Cell> cells_of(const CellOwners& owners, int rank) {
  const Mesh mesh = mesh_of(owners);
  const auto run = [&](const std::vector<LeafRun>& runs, const char* axis) {
    return runs[static_cast<std::size_t>(mesh.coordinate(rank, axis))];
  };
  const LeafRun shards = run(owners.shards, kDataAxis), tiles = run(owners.tiles, kModelAxis);
  std::vector<std::int32_t> segments;
  for (std::size_t i = static_cast<std::size_t>(mesh.coordinate(rank, kStageAxis));
       i < owners.segments.size(); i += static_cast<std::size_t>(owners.stages()))
    for (std::int32_t g = 0; g < owners.segments[i].count; ++g)
      segments.push_back(owners.segments[i].first + g);
  std::vector<Cell> cells;
  for (std::int32_t v = 0; v < shards.count; ++v)
    for (std::int32_t t = 0; t < tiles.count; ++t)
      for (const std::int32_t g : segments) cells.push_back({shards.first + v, tiles.first + t, g});
  return cells;
}

}  // namespace trireme::parallel
