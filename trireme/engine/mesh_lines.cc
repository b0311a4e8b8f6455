#include "trireme/engine/mesh_lines.h"

namespace trireme::engine {
namespace {

// Beside the group of all ranks and that of the workers of a leased rule.
constexpr std::uint16_t kDataLines = 2, kModelLines = 3, kStageLines = 4, kReplicas = 5;

}  // namespace

Result<std::unique_ptr<MeshLines>> MeshLines::make(comm::Group& workers, const parallel::Mesh& mesh) {
  TR_CHECK(workers.world() == mesh.num_ranks(), "a group of {} for a mesh of {}", workers.world(),
           mesh.num_ranks());
  std::unique_ptr<MeshLines> lines(new MeshLines(workers));
  const int rank = workers.rank();
  lines->replica_ = mesh.replica_of(rank);
  lines->tile_ = mesh.coordinate(rank, parallel::kModelAxis);
  if (mesh.num_ranks() == mesh.num_replicas()) return lines;
  TR_ASSIGN_OR_RETURN(lines->data_, workers.subgroup(mesh.peers_of(rank), kDataLines));
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::string& name = mesh.axes[axis].name;
    if (name == parallel::kModelAxis) {
      TR_ASSIGN_OR_RETURN(lines->model_, workers.subgroup(mesh.line(rank, axis), kModelLines));
    } else if (name == parallel::kStageAxis) {
      TR_ASSIGN_OR_RETURN(lines->stages_, workers.subgroup(mesh.line(rank, axis), kStageLines));
    }
  }
  if (lines->model_ != nullptr && lines->stages_ != nullptr) {
    TR_ASSIGN_OR_RETURN(lines->replica_group_,
                        workers.subgroup(mesh.ranks_of_replica(lines->replica_), kReplicas));
  }
  return lines;
}

comm::Group* MeshLines::parts() const {
  if (replica_group_ != nullptr) return replica_group_.get();
  return model_ != nullptr ? model_.get() : stages_.get();
}

std::map<std::string, double> MeshLines::bytes_sent() const {
  if (parts() == nullptr) return {};
  std::map<std::string, double> bytes;
  const auto add = [&](const char* axis, const comm::Group* group) {
    if (group != nullptr) bytes[axis] = static_cast<double>(group->stats().own_bytes);
  };
  add(parallel::kDataAxis, data_.get());
  add(parallel::kStageAxis, stages_.get());
  add(parallel::kModelAxis, model_.get());
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
  if (stages_ != nullptr) axes.emplace(parallel::kStageAxis, stages_.get());
  std::map<std::string, comm::AxisExchange*> on_device;
  if (exchange_ != nullptr) on_device.emplace(parallel::kModelAxis, exchange_.get());
  return comm::make_host_ops(workers_, num_shards, std::move(axes), std::move(on_device));
}

std::unique_ptr<comm::HostOpTable> MeshLines::make_lone_host_ops() const {
  return comm::make_lone_host_ops(workers_.rank(),
                                  {{parallel::kDataAxis, replica_}, {parallel::kModelAxis, tile_}});
}

}  // namespace trireme::engine
