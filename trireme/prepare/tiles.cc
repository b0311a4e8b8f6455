#include "trireme/prepare/tiles.h"

#include "trireme/graph/pass/passes.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/piece.h"
#include "trireme/plan/slots.h"

namespace trireme::prepare {
namespace {

using graph::Graph;

// Train and evaluation graphs never run at the same time, but a message may still be on its way.
constexpr std::int64_t kHalf = plan::kGraphSlots / 2;

parallel::ShardAxis model_axis(std::int32_t tiles) { return {parallel::kModelAxis, tiles}; }

Result<std::vector<parallel::LayoutPin>> pins_of(const job::Job& job) {
  std::vector<parallel::LayoutPin> pins;
  for (const std::string& text : job.parallel.layouts.value_or(std::vector<std::string>())) {
    TR_ASSIGN_OR_RETURN(parallel::LayoutPin pin, parallel::parse_pin(text));
    pins.push_back(std::move(pin));
  }
  return pins;
}

// What an evaluation needs: scores that nobody asks for would be gathered.
Result<Graph> scored(const Graph& eval) {
  const std::vector<std::string> outputs{"loss", "correct"};
  return graph::eliminate_dead_code(eval, outputs);
}

Result<parallel::StoredOptions> choose_eval(const Graph& graph, const TilingRequest& request,
                                            const std::map<std::string, op::AxisCut>& cuts) {
  parallel::ShardRequest shard;
  shard.axis = model_axis(request.tiles);
  shard.costs = request.costs;
  shard.allowed = [&cuts](const graph::Node& node, const op::LayoutOption& option) {
    if (node.def != &op::kVariable) return true;
    const auto cut = cuts.find(node.attrs.get_text("name"));
    return option.outputs[0] == (cut == cuts.end() ? op::AxisCut(op::kReplicate) : cut->second);
  };
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(graph, shard));
  return parallel::store_options(layouts);
}

Result<Graph> cut(const Graph& whole, const parallel::StoredOptions& stored, const plan::Plan& plan, int tile,
                  std::int64_t first_slot) {
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts,
                      parallel::restore_options(whole, model_axis(plan.tiles), stored));
  TR_ASSIGN_OR_RETURN(const Graph part, parallel::shard_graph(whole, layouts, tile));
  return graph::number_slots(part, first_slot, kHalf);
}

}  // namespace

Result<Tiling> choose_tiling(const job::Job& job, const model::ModelInput& input,
                             const TilingRequest& request) {
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, input, request.shard_batch));
  TR_ASSIGN_OR_RETURN(const parallel::StyleRow* style, parallel::find_style(job.options.text(job::kStyle)));
  TR_ASSIGN_OR_RETURN(const std::vector<parallel::LayoutPin> pins, pins_of(job));
  parallel::ShardRequest shard;
  shard.axis = model_axis(request.tiles);
  shard.costs = request.costs;
  TR_RETURN_IF_ERROR(restrict_to(style, pins, model.train, shard));
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(model.train, shard));
  Tiling out;
  out.tiles = request.tiles;
  for (const auto& [name, v] : model.train.variables())
    out.cuts.emplace(name, layouts.cut_of(model.train, name));
  out.train = parallel::store_options(layouts);
  TR_ASSIGN_OR_RETURN(const Graph first, parallel::shard_graph(model.train, layouts, 0));
  const parallel::StepCost exchanges = parallel::exchanges_of(first, shard.axis, request.costs);
  out.seconds = exchanges.seconds;
  out.bytes = exchanges.bytes;
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs judged, job::build_job_model(job, input, request.eval_batch));
  TR_ASSIGN_OR_RETURN(const Graph eval, scored(judged.eval));
  TR_ASSIGN_OR_RETURN(out.eval, choose_eval(eval, request, out.cuts));
  return out;
}

void put_tiling(const Tiling& tiling, int replicas, const Prepared& whole, plan::Plan& plan) {
  plan.tiles = tiling.tiles;
  plan.tile_owners = parallel::even_runs(tiling.tiles, tiling.tiles);
  plan.train_cuts = tiling.train;
  plan.eval_cuts = tiling.eval;
  plan.tile_seconds = tiling.seconds;
  plan.tile_bytes = tiling.bytes;
  parallel::Mesh mesh = parallel::data_mesh(replicas);
  if (tiling.tiles > 1) mesh.axes.push_back({parallel::kModelAxis, tiling.tiles});
  for (const auto* list : {&whole.parameters, &whole.frozen})
    for (const model::Parameter& p : *list) {
      parallel::Layout layout = parallel::Layout::replicate(mesh);
      if (const auto found = tiling.cuts.find(p.name); found != tiling.cuts.end() && tiling.tiles > 1)
        layout.axes.back() = parallel::AxisLayout::of_option(found->second);
      plan.layouts[p.name] = std::move(layout);
    }
}

Status take_tile(const job::Job& job, int tile, Prepared& out) {
  if (out.plan.tiles == 1) return {};
  const parallel::Mesh mesh = out.plan.mesh();
  for (auto* list : {&out.parameters, &out.frozen})
    for (model::Parameter& p : *list) {
      const auto layout = out.plan.layouts.find(p.name);
      if (layout == out.plan.layouts.end() || !layout->second.axes.back().cuts()) continue;
      TR_RETURN_IF_ERROR(check_layout(layout->second, mesh, p.type));
      out.wholes.emplace(p.name, p.type);
      p.type.shape = parallel::local_shape(layout->second, mesh, tile, p.type.shape);
    }
  TR_ASSIGN_OR_RETURN(out.states, model::optimizer_states(job::optimizer_spec(job), out.parameters));
  return {};
}

Result<Graph> tile_of_train(const Graph& whole, const plan::Plan& plan, int tile) {
  if (plan.tiles == 1) return whole;
  return cut(whole, plan.train_cuts, plan, tile, plan::kSlotGraph);
}

Result<Graph> tile_of_eval(const Graph& whole, const plan::Plan& plan, int tile) {
  if (plan.tiles == 1) return whole;
  TR_ASSIGN_OR_RETURN(const Graph eval, scored(whole));
  return cut(eval, plan.eval_cuts, plan, tile, plan::kSlotGraph + kHalf);
}

}  // namespace trireme::prepare
