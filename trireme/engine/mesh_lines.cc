#include "trireme/engine/mesh_lines.h"

namespace trireme::engine {
namespace {

// Beside the group of all ranks and that of the workers of a leased rule.
constexpr std::uint16_t kDataLines = 2, kModelLines = 3, kStageLines = 4;

}  // namespace

Result<std::unique_ptr<MeshLines>> MeshLines::make(comm::Group& workers, const parallel::Mesh& mesh) {
  TR_CHECK(workers.world() == mesh.num_ranks(), "a group of {} for a mesh of {}", workers.world(),
           mesh.num_ranks());
  std::unique_ptr<MeshLines> lines(new MeshLines(workers));
  const int rank = workers.rank();
  lines->replica_ = mesh.replica_of(rank);
  lines->tile_ = mesh.coordinate(rank, parallel::kModelAxis);
  const bool has_tiles = mesh.size_of(parallel::kModelAxis) > 1,
             has_stages = mesh.size_of(parallel::kStageAxis) > 1;
  TR_CHECK(!has_tiles || !has_stages, "a mesh with a model and a stage axis: {}", parallel::mesh_text(mesh));
  if (!has_tiles && !has_stages) return lines;
  TR_ASSIGN_OR_RETURN(lines->data_, workers.subgroup(mesh.peers_of(rank), kDataLines));
  const std::vector<int> replica = mesh.ranks_of_replica(lines->replica_);
  if (has_tiles) {
    TR_ASSIGN_OR_RETURN(lines->model_, workers.subgroup(replica, kModelLines));
  } else {
    TR_ASSIGN_OR_RETURN(lines->stages_, workers.subgroup(replica, kStageLines));
  }
  return lines;
}

std::map<std::string, double> MeshLines::bytes_sent() const {
  if (parts() == nullptr) return {};
  const char* const axis = model_ != nullptr ? parallel::kModelAxis : parallel::kStageAxis;
  std::map<std::string, double> bytes{{parallel::kDataAxis, static_cast<double>(data_->stats().own_bytes)},
                                      {axis, static_cast<double>(parts()->stats().own_bytes)}};
  if (exchange_ != nullptr) bytes[parallel::kModelAxis] += exchange_->bytes_sent();
  for (const auto& [axis, left_off] : left_off_) bytes[axis] -= left_off;
  return bytes;
}

void MeshLines::leave_off(const std::map<std::string, double>& before) {
  for (const auto& [axis, now] : bytes_sent()) left_off_[axis] += now - before.at(axis);
}

std::unique_ptr<comm::HostOpTable> MeshLines::make_host_ops(std::uint32_t num_shards) const {
  std::map<std::string, comm::Group*> axes;
  if (model_ != nullptr) axes = {{parallel::kDataAxis, data_.get()}, {parallel::kModelAxis, model_.get()}};
  std::map<std::string, comm::AxisExchange*> on_device;
  if (exchange_ != nullptr) on_device.emplace(parallel::kModelAxis, exchange_.get());
  return comm::make_host_ops(workers_, num_shards, std::move(axes), std::move(on_device));
}

std::unique_ptr<comm::HostOpTable> MeshLines::make_lone_host_ops() const {
  return comm::make_lone_host_ops(workers_.rank(),
                                  {{parallel::kDataAxis, replica_}, {parallel::kModelAxis, tile_}});
}

}  // namespace trireme::engine
