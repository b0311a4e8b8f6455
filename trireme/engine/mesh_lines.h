// MeshLines: the ranks along the axes of a mesh, as groups, seen by one of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/comm/host_ops.h"
#include "trireme/parallel/mesh.h"

namespace trireme::engine {

// On the loop of one Runtime; the group of all workers outlives it.
class MeshLines {
 public:
  // `workers`: the ranks of the mesh, in its order.
  static Result<std::unique_ptr<MeshLines>> make(comm::Group& workers, const parallel::Mesh& mesh);

  comm::Group& workers() const { return workers_; }
  // Those that hold the same part of the model, by replica: gradients are summed over them.
  comm::Group& data() const { return data_ != nullptr ? *data_ : workers_; }
  // Those that hold the tiles of this rank's stage of its replica; null where there is one.
  comm::Group* model() const { return model_.get(); }
  // Those that hold the stages of this rank's tile; null where the mesh has no stage axis.
  comm::Group* stages() const { return stages_.get(); }
  // All ranks of the replica; null where it is one.
  comm::Group* parts() const;
  // What exchanges operands of this rank's graphs along the model axis on GPUs; null: they pass through the
  // host. Before the host ops are made.
  void set_exchange(std::shared_ptr<comm::AxisExchange> exchange) { exchange_ = std::move(exchange); }
  const comm::AxisExchange* exchange() const { return exchange_.get(); }
  // What this rank sent along each axis that has several ranks; empty where a replica is one rank.
  std::map<std::string, double> bytes_sent() const;
  // What was sent since bytes_sent() was `before` counts no more: evaluations are no part of steps.
  void leave_off(const std::map<std::string, double>& before);
  int replica() const { return replica_; }
  int tile() const { return tile_; }

  // Collectives and messages in graphs: along an axis, or among all workers. Runs are numbered as
  // comm::make_host_ops says.
  std::unique_ptr<comm::HostOpTable> make_host_ops(std::uint32_t num_shards) const;
  // For a rank that runs its graph once more by itself.
  std::unique_ptr<comm::HostOpTable> make_lone_host_ops() const;

 private:
  explicit MeshLines(comm::Group& workers) : workers_(workers) {}
  comm::Group& workers_;
  std::unique_ptr<comm::Group> data_, model_, stages_;  // null: all workers; nobody else
  std::unique_ptr<comm::Group> replica_group_;          // where it is neither of these
  std::shared_ptr<comm::AxisExchange> exchange_;
  std::map<std::string, double> left_off_;  // bytes of each axis
  int replica_ = 0, tile_ = 0;
};

}  // namespace trireme::engine
