#include "trireme/apply/model_part.h"

#include <algorithm>
#include <cstring>

#include "trireme/cost/rates.h"
#include "trireme/engine/share_text.h"
#include "trireme/plan/slots.h"

namespace trireme::apply {
namespace {

using graph::Graph;
using runtime::Task;

Json to_json(const parallel::StoredOptions& stored) {
  return {{"options", stored.options}, {"nodes", stored.nodes_text()}};
}

Result<parallel::StoredOptions> options_from_json(const Json& json) {
  parallel::StoredOptions out;
  TR_ASSIGN_OR_RETURN(out.options, json_get<std::vector<std::string>>(json, "options"));
  TR_ASSIGN_OR_RETURN(const std::string nodes, json_get<std::string>(json, "nodes"));
  TR_ASSIGN_OR_RETURN(out.nodes, parallel::StoredOptions::parse_nodes(nodes));
  return out;
}

Json to_json(const std::map<std::string, op::AxisCut>& cuts) {
  Json json = Json::object();
  for (const auto& [name, cut] : cuts)
    json[name] = {{"dim", cut.dim}, {"blocks", cut.blocks}, {"unit", cut.unit}};
  return json;
}

Result<std::map<std::string, op::AxisCut>> cuts_from_json(const Json& json) {
  std::map<std::string, op::AxisCut> cuts;
  for (const auto& [name, one] : json.items()) {
    TR_ASSIGN_OR_RETURN(const int dim, json_get<int>(one, "dim"));
    TR_ASSIGN_OR_RETURN(const int blocks, json_get<int>(one, "blocks"));
    TR_ASSIGN_OR_RETURN(const std::int64_t unit, json_get<std::int64_t>(one, "unit"));
    cuts.emplace(name, op::AxisCut(dim, blocks, unit));
  }
  return cuts;
}

// Choosing takes a while, and on the pool it does not hold up the heartbeats of the loop.
constexpr cost::OpCost kChoosing{.flops = 1e8, .bytes = 1e7};

}  // namespace

Result<std::shared_ptr<ModelPart>> ModelPart::make(runtime::Runtime& rt, comm::Group& group,
                                                   const parallel::Mesh& mesh) {
  std::shared_ptr<ModelPart> part(new ModelPart(group, mesh));
  part->rt_ = &rt;
  TR_ASSIGN_OR_RETURN(part->lines_, engine::MeshLines::make(group, mesh));
  part->host_ops_ = part->lines_->make_host_ops(1);
  cost::HostShare share;
  share.transport = "shm";
  share.ranks_on_host = group.world();
  share.cores_per_rank = rt.compute_threads();
  share.num_cores = group.world() * rt.compute_threads();
  const cost::Rates rates = cost::host_rates(nullptr, share);
  part->over_.tiles = mesh.size_of(parallel::kModelAxis);
  part->over_.costs = {rates.comm, rates.machine, rt.compute_threads()};
  return part;
}

Task<Result<Json>> ModelPart::told(Json said, const char* what) {
  engine::TextCall call{.size_slot = plan::kSlotStartSize, .slot = plan::kSlotStart, .label = what};
  call.step = calls_++;
  std::string text = is_first() ? said.dump() : "";
  Result<std::string> sent = co_await engine::broadcast_text(*rt_, group_, call, std::move(text));
  if (!sent.ok()) co_return sent.status();
  co_return parse_json(*sent, what);
}

Task<Status> ModelPart::choose_cuts(const job::Job& job, const Graph& eval, const plan::Plan* plan) {
  Result<prepare::ForwardStages> stages = prepare::ForwardStages();
  runtime::ComputeFn cut = [&](runtime::ComputeContext&) {
    stages = prepare::choose_forward_stages(eval, plan, mesh_.size_of(parallel::kStageAxis));
  };
  co_await rt_->compute(kChoosing, std::move(cut), 1, "stages");
  if (!stages.ok()) co_return stages.status();
  stages_ = std::move(*stages);
  if (over_.tiles == 1) co_return Status();
  over_.chunks = prepare::chunk_request(job);
  Result<std::map<std::string, op::AxisCut>> chosen = over_.cuts;
  if (is_first()) {
    runtime::ComputeFn choose = [&](runtime::ComputeContext&) {
      chosen = prepare::choose_forward_cuts(job, eval, plan, over_);
    };
    co_await rt_->compute(kChoosing, std::move(choose), 1, "layouts");
  }
  if (!chosen.ok()) co_return chosen.status();
  TR_CO_ASSIGN_OR_RETURN(const Json json, co_await told(to_json(*chosen), "cuts of the variables"));
  TR_CO_ASSIGN_OR_RETURN(over_.cuts, cuts_from_json(json));
  co_return Status();
}

Task<Result<std::vector<parallel::StoredOptions>>> ModelPart::choose_tiles(const std::vector<Graph>& parts,
                                                                           const plan::Plan* plan) {
  std::vector<parallel::StoredOptions> all(parts.size());
  Status failure;
  if (is_first()) {
    runtime::ComputeFn choose = [&](runtime::ComputeContext&) {
      for (std::size_t s = 0; s < parts.size() && failure.ok(); ++s) {
        auto chosen = prepare::choose_forward(parts[s], plan, over_);
        failure = chosen.status();
        if (chosen.ok()) all[s] = std::move(*chosen);
      }
    };
    co_await rt_->compute(kChoosing, std::move(choose), 1, "layouts");
  }
  if (!failure.ok()) co_return failure;
  Json said = Json::array();
  for (const parallel::StoredOptions& one : all) said.push_back(to_json(one));
  TR_CO_ASSIGN_OR_RETURN(const Json json, co_await told(std::move(said), "layouts of the graph"));
  if (json.size() != all.size())
    co_return error(Code::kCorrupt, "[model] layouts of the graph: got those of {} stages, expected {}",
                    json.size(), all.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    TR_CO_ASSIGN_OR_RETURN(all[s], options_from_json(json[s]));
  }
  co_return all;
}

Task<Result<Graph>> ModelPart::part_of(Graph whole, const plan::Plan* plan) {
  Result<parallel::SegmentedModel> model = parallel::SegmentedModel();
  std::vector<Graph> parts;
  if (num_stages() > 1) {
    runtime::ComputeFn cut = [&](runtime::ComputeContext&) { model = cut_forward(whole, stages_); };
    co_await rt_->compute(kChoosing, std::move(cut), 1, "stages");
    if (!model.ok()) co_return model.status();
    for (parallel::Segment& s : model->segments) parts.push_back(std::move(s.graph));
  } else {
    parts.push_back(std::move(whole));
  }
  const auto own = static_cast<std::size_t>(stage());
  Result<Graph> part = Graph();
  if (over_.tiles > 1) {
    TR_CO_ASSIGN_OR_RETURN(const std::vector<parallel::StoredOptions> stored,
                           co_await choose_tiles(parts, plan));
    runtime::ComputeFn cut = [&](runtime::ComputeContext&) {
      part = prepare::tile_of_forward(parts[own], stored[own], over_, tile());
    };
    co_await rt_->compute(kChoosing, std::move(cut), 1, "shard");
  } else {
    part = std::move(parts[own]);
  }
  if (!part.ok() || num_stages() == 1) co_return part;
  co_return prepare::join_stages(*part, *model, stage());
}

parallel::Layout ModelPart::layout_of(const std::string& name) const {
  parallel::Layout layout = parallel::Layout::replicate(mesh_);
  for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
    const std::string& along = mesh_.axes[axis].name;
    if (const auto cut = over_.cuts.find(name); along == parallel::kModelAxis && cut != over_.cuts.end())
      layout.axes[axis] = parallel::AxisLayout::of_option(cut->second);
    if (const auto at = stages_.places.find(name); along == parallel::kStageAxis && num_stages() > 1)
      layout.axes[axis] =
          parallel::AxisLayout::at(at != stages_.places.end() ? at->second : std::vector<int>{0});
  }
  return layout;
}

bool ModelPart::has(const std::string& name) const {
  const auto at = stages_.places.find(name);
  if (num_stages() == 1) return true;
  return at != stages_.places.end()
             ? std::find(at->second.begin(), at->second.end(), stage()) != at->second.end()
             : stage() == 0;
}

TensorType ModelPart::part_type(const std::string& name, const TensorType& whole) const {
  return {whole.dtype, parallel::local_shape(layout_of(name), mesh_, group_.rank(), whole.shape)};
}

Result<engine::HeldState> ModelPart::held(const std::map<std::string, TensorType>& wholes,
                                          const std::map<std::string, Tensor>& memory) const {
  std::vector<engine::LaidOutTensor> all;
  for (const auto& [name, whole] : wholes) all.push_back({name, whole, layout_of(name), memory.at(name)});
  return engine::hold_laid_out(all, mesh_, group_.rank());
}

int ModelPart::rank_of_results(int replica) const {
  for (const int rank : mesh_.ranks_of_replica(replica))
    if (mesh_.coordinate(rank, parallel::kStageAxis) == num_stages() - 1) return rank;
  return mesh_.speaker_of(replica);
}

Task<Status> ModelPart::collect(Tensor values, std::string label) {
  comm::Call call;
  call.slot = plan::kSlotEval;
  call.step = calls_++;  // the same on ranks that bring nothing
  call.label = std::move(label);
  if (num_stages() > 1) {
    if (group_.rank() != rank_of_results(replica())) std::memset(values.raw(), 0, values.type().num_bytes());
    co_return co_await group_.reduce(std::move(call), std::move(values));
  }
  // The first places of the replicas are a line along the data axis.
  if (num_replicas() == 1 || tile() != 0) co_return Status();
  co_return co_await lines_->data().reduce(std::move(call), std::move(values));
}

Task<Status> ModelPart::give_from_last_stage(Tensor values, std::string label) {
  if (num_stages() == 1) co_return Status();  // every rank has it
  comm::Call call;
  call.slot = plan::kSlotEval;
  call.step = calls_++;
  call.root = rank_of_results(0);
  call.label = std::move(label);
  co_return co_await group_.broadcast(std::move(call), std::move(values));
}

}  // namespace trireme::apply
