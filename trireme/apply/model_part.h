// ModelPart: what one rank of a mesh has to do with a trained model: which part of its variables it holds,
// its part of every graph, and how results come to the first rank. Replicas share the batches, the ranks of
// a replica run each batch together. Stages hand it on by messages of their graphs; outputs are of the last
// one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "trireme/engine/evaluator.h"
#include "trireme/engine/mesh_lines.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/job/job.h"
#include "trireme/prepare/forward_stages.h"

namespace trireme::apply {

// On the loop of one Runtime. What is collective all ranks call in the same order.
class ModelPart {
 public:
  // `group`: the ranks of the mesh, which outlives it.
  static Result<std::shared_ptr<ModelPart>> make(runtime::Runtime& rt, comm::Group& group,
                                                 const parallel::Mesh& mesh);

  // Results are complete at this rank, which tells the user.
  bool is_first() const { return group_.rank() == 0; }
  int replica() const { return lines_->replica(); }
  int num_replicas() const { return mesh_.num_replicas(); }
  int tile() const { return lines_->tile(); }
  int stage() const { return mesh_.coordinate(group_.rank(), parallel::kStageAxis); }
  int num_stages() const { return static_cast<int>(stages_.stages); }
  comm::Group& group() { return group_; }
  exec::HostOps host_ops() { return host_ops_->table(); }

  // Where the variables lie, and, as the first rank decides, how. Collective. The plan may be null.
  runtime::Task<Status> choose_cuts(const job::Job& job, const graph::Graph& eval, const plan::Plan* plan);
  // This rank's part of a graph with these variables, cut as the first rank decides. Collective.
  runtime::Task<Result<graph::Graph>> part_of(graph::Graph whole, const plan::Plan* plan);
  // Whether this rank has some of a variable.
  bool has(const std::string& name) const;
  // A variable that is `whole` in a model of one piece.
  TensorType part_type(const std::string& name, const TensorType& whole) const;
  // The variables, whose memory is of those types.
  Result<engine::HeldState> held(const std::map<std::string, TensorType>& wholes,
                                 const std::map<std::string, Tensor>& memory) const;

  // The batches that this rank runs.
  engine::BatchRange batches(const graph::Graph& graph, std::int64_t count) const {
    return engine::batches_of_replica(graph, count, replica(), num_replicas());
  }
  // Adds numbers of all replicas up at the first rank. Every entry is of one replica and zero elsewhere, or a
  // count, so any order gives the same. Collective; of a replica one rank of its last stage brings them, and
  // those of others are lost.
  runtime::Task<Status> collect(Tensor values, std::string label);
  // What the last stage has, on every rank. Collective.
  runtime::Task<Status> give_from_last_stage(Tensor values, std::string label);
  // What the first rank says, on every rank. Collective.
  runtime::Task<Result<Json>> told(Json said, const char* what);

 private:
  ModelPart(comm::Group& group, parallel::Mesh mesh) : group_(group), mesh_(std::move(mesh)) {}
  parallel::Layout layout_of(const std::string& name) const;
  int rank_of_results(int replica) const;  // the first tile of its last stage
  // How the parts of stages are cut over tiles, as the first rank decides. Collective.
  runtime::Task<Result<std::vector<parallel::StoredOptions>>> choose_tiles(
      const std::vector<graph::Graph>& parts, const plan::Plan* plan);
  runtime::Runtime* rt_ = nullptr;
  comm::Group& group_;
  const parallel::Mesh mesh_;
  std::unique_ptr<engine::MeshLines> lines_;
  std::unique_ptr<comm::HostOpTable> host_ops_;
  prepare::ForwardTiles over_;
  prepare::ForwardStages stages_;
  std::uint32_t calls_ = 0;
};

}  // namespace trireme::apply
