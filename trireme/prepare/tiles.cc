#include "trireme/prepare/tiles.h"

#include <algorithm>
#include <optional>

#include "trireme/graph/pass/passes.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/piece.h"
#include "trireme/parallel/shard/axis_collective.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/make_plan.h"

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
Result<Graph> scored(const Graph& eval) { return forward_graph(eval, {"loss", "correct"}); }

op::AxisCut cut_in(const std::map<std::string, op::AxisCut>& cuts, const std::string& name) {
  const auto cut = cuts.find(name);
  return cut == cuts.end() ? op::AxisCut(op::kReplicate) : cut->second;
}

Result<parallel::StoredOptions> choose_by_price(const Graph& graph, const ForwardTiles& over) {
  parallel::ShardRequest shard;
  shard.axis = model_axis(over.tiles);
  shard.costs = over.costs;
  shard.allowed = [&over](const graph::Node& node, const op::LayoutOption& option) {
    return node.def != &op::kVariable || option.outputs[0] == cut_in(over.cuts, node.attrs.get_text("name"));
  };
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(graph, shard));
  return parallel::store_options(layouts);
}

// What the plan says of a forward graph; nothing: it has other tiles, or another version wrote it.
std::optional<parallel::AxisLayouts> planned(const Graph& forward, const plan::Plan* plan,
                                             std::int32_t tiles) {
  if (plan == nullptr || plan->tiles != tiles) return std::nullopt;
  auto layouts = parallel::restore_options(forward, model_axis(tiles), plan->eval_cuts);
  if (!layouts.ok()) return std::nullopt;
  return std::move(*layouts);
}

std::map<std::string, op::AxisCut> cuts_of(const Graph& graph, const parallel::AxisLayouts& layouts) {
  std::map<std::string, op::AxisCut> cuts;
  for (const auto& [name, v] : graph.variables()) cuts.emplace(name, layouts.cut_of(graph, name));
  return cuts;
}

// The graph of a tile, whose collectives have slots from the first one on.
struct TileRequest {
  std::int32_t tiles = 1;
  int tile = 0;
  std::int64_t first_slot = 0;
  parallel::ChunkRequest chunks = {};
};
Result<Graph> cut(const Graph& whole, const parallel::StoredOptions& stored, const TileRequest& of) {
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts,
                      parallel::restore_options(whole, model_axis(of.tiles), stored));
  TR_ASSIGN_OR_RETURN(const Graph part, parallel::shard_in_chunks(whole, layouts, of.chunks, of.tile));
  return graph::number_slots(part, of.first_slot, kHalf);
}

// The style and the pins of a job, as what they forbid.
Result<parallel::ShardRequest> asked_for(const job::Job& job, std::int32_t tiles,
                                         const parallel::AxisCosts& costs, const Graph& train) {
  TR_ASSIGN_OR_RETURN(const parallel::StyleRow* style, parallel::find_style(job.options.text(job::kStyle)));
  TR_ASSIGN_OR_RETURN(const std::vector<parallel::LayoutPin> pins, pins_of(job));
  parallel::ShardRequest shard;
  shard.axis = model_axis(tiles);
  shard.costs = prices_of_choice(job, costs);
  TR_RETURN_IF_ERROR(restrict_to(style, pins, train, shard));
  return shard;
}

}  // namespace

parallel::AxisCosts prices_of_choice(const job::Job& job, const parallel::AxisCosts& measured) {
  return job.train.logical_tiles ? parallel::AxisCosts() : measured;
}

Status check_tiling(const job::Job& job, const model::ModelInput& input) {
  const std::int32_t tiles = job::tiles_of(job);
  if (tiles == 1) return {};
  const std::int64_t batch = shard_batch_of(job, job::roles_of(job).num_replicas());
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, input, batch));
  TR_ASSIGN_OR_RETURN(const parallel::ShardRequest shard, asked_for(job, tiles, {}, model.train));
  return parallel::choose_layouts(model.train, shard).status();
}

Result<Tiling> choose_tiling(const job::Job& job, const model::ModelInput& input,
                             const TilingRequest& request) {
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, input, request.shard_batch));
  TR_ASSIGN_OR_RETURN(const parallel::ShardRequest shard,
                      asked_for(job, request.tiles, request.costs, model.train));
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(model.train, shard));
  Tiling out;
  out.tiles = request.tiles;
  out.cuts = cuts_of(model.train, layouts);
  out.train = parallel::store_options(layouts);
  TR_ASSIGN_OR_RETURN(const Graph first,
                      parallel::shard_in_chunks(model.train, layouts, chunk_request(job), 0));
  const parallel::StepCost exchanges = parallel::exchanges_of(first, shard.axis, request.costs);
  out.seconds = exchanges.seconds;
  out.bytes = exchanges.bytes;
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs judged, job::build_job_model(job, input, request.eval_batch));
  TR_ASSIGN_OR_RETURN(const Graph eval, scored(judged.eval));
  TR_ASSIGN_OR_RETURN(out.eval, choose_by_price(eval, {request.tiles, shard.costs, out.cuts}));
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
  const parallel::Mesh mesh = out.plan.mesh(), line{{{parallel::kModelAxis, out.plan.tiles}}};
  for (auto* list : {&out.parameters, &out.frozen})
    for (model::Parameter& p : *list) {
      const auto layout = out.plan.layouts.find(p.name);
      if (layout == out.plan.layouts.end() || !layout->second.axes.back().cuts()) continue;
      TR_RETURN_IF_ERROR(check_layout(layout->second, mesh, p.type));
      out.wholes.emplace(p.name, p.type);
      p.type.shape = parallel::local_shape({{layout->second.axes.back()}}, line, tile, p.type.shape);
    }
  TR_ASSIGN_OR_RETURN(out.states, model::optimizer_states(job::optimizer_spec(job), out.parameters));
  return {};
}

parallel::ChunkRequest chunk_request(const job::Job& job) {
  return {parallel::fc_scheme_of(job.options.text(job::kFcScheme)),
          static_cast<int>(job.options.integer(job::kOverlapChunks))};
}

Result<Graph> tile_of_train(const job::Job& job, const Graph& whole, const plan::Plan& plan, int tile) {
  if (plan.tiles == 1) return whole;
  return cut(whole, plan.train_cuts, {plan.tiles, tile, plan::kSlotGraph, chunk_request(job)});
}

Result<Graph> tile_of_eval(const job::Job& job, const Graph& whole, const plan::Plan& plan, int tile) {
  if (plan.tiles == 1) return whole;
  TR_ASSIGN_OR_RETURN(const Graph eval, scored(whole));
  return cut(eval, plan.eval_cuts, {plan.tiles, tile, plan::kSlotGraph + kHalf, chunk_request(job)});
}

Result<parallel::StoredOptions> choose_segment(const job::Job& job, const Graph& segment,
                                               const SegmentTiles& over) {
  parallel::ShardRequest shard;
  shard.axis = model_axis(over.tiles);
  shard.costs = prices_of_choice(job, over.costs);
  TR_ASSIGN_OR_RETURN(const parallel::StyleRow* style, parallel::find_style(job.options.text(job::kStyle)));
  // Whether the style and the pins fit was asked of the whole model: what they say of variables is in `cuts`.
  parallel::restrict_nodes(style, segment, shard);
  shard.allowed = [&over, of_nodes = shard.allowed](const graph::Node& node, const op::LayoutOption& option) {
    if (node.def != &op::kVariable) return of_nodes == nullptr || of_nodes(node, option);
    return option.outputs[0] == cut_in(over.cuts, node.attrs.get_text("name"));
  };
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(segment, shard));
  return parallel::store_options(layouts);
}

Result<Graph> tile_of_segment(const job::Job& job, const Graph& segment,
                              const parallel::StoredOptions& stored, const plan::Plan& plan, int tile,
                              std::int64_t& slot) {
  if (plan.tiles == 1) return segment;
  const std::int64_t end = slot < first_eval_slot() ? first_eval_slot() : first_eval_slot() + kHalf;
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts,
                      parallel::restore_options(segment, model_axis(plan.tiles), stored));
  TR_ASSIGN_OR_RETURN(const Graph part,
                      parallel::shard_in_chunks(segment, layouts, chunk_request(job), tile));
  TR_ASSIGN_OR_RETURN(const Graph numbered, graph::number_slots(part, slot, end - slot));
  for (std::int32_t i = 0; i < numbered.size(); ++i)
    if (parallel::is_collective_along(numbered.node(i), parallel::kModelAxis))
      slot = std::max(slot, numbered.node(i).attrs.get_int("slot") + 1);
  return numbered;
}

std::int64_t first_train_slot() { return plan::kSlotGraph; }
std::int64_t first_eval_slot() { return plan::kSlotGraph + kHalf; }

Result<Graph> forward_graph(const Graph& eval, const std::vector<std::string>& outputs) {
  return graph::eliminate_dead_code(eval, outputs);
}

Result<std::map<std::string, op::AxisCut>> choose_forward_cuts(const job::Job& job, const Graph& eval,
                                                               const plan::Plan* plan,
                                                               const ForwardTiles& over) {
  TR_ASSIGN_OR_RETURN(const Graph graph, scored(eval));
  if (const auto layouts = planned(graph, plan, over.tiles)) return cuts_of(graph, *layouts);
  const std::string style_name = job.options.has(job::kStyle.name) ? job.options.text(job::kStyle) : "tensor";
  TR_ASSIGN_OR_RETURN(const parallel::StyleRow* style, parallel::find_style(style_name));
  TR_ASSIGN_OR_RETURN(const std::vector<parallel::LayoutPin> pins, pins_of(job));
  parallel::ShardRequest shard;
  shard.axis = model_axis(over.tiles);
  shard.costs = over.costs;
  TR_RETURN_IF_ERROR(restrict_to(style, pins, graph, shard));
  TR_ASSIGN_OR_RETURN(const parallel::AxisLayouts layouts, parallel::choose_layouts(graph, shard));
  return cuts_of(graph, layouts);
}

Result<parallel::StoredOptions> choose_forward(const Graph& forward, const plan::Plan* plan,
                                               const ForwardTiles& over) {
  const auto layouts = planned(forward, plan, over.tiles);
  const auto lies_so = [&](const auto& variable) {
    return layouts->cut_of(forward, variable.first) == cut_in(over.cuts, variable.first);
  };
  const auto& variables = forward.variables();
  if (layouts && std::all_of(variables.begin(), variables.end(), lies_so)) return plan->eval_cuts;
  return choose_by_price(forward, over);
}

Result<Graph> tile_of_forward(const Graph& forward, const parallel::StoredOptions& stored,
                              const ForwardTiles& over, int tile) {
  return cut(forward, stored, {over.tiles, tile, plan::kSlotGraph + kHalf, over.chunks});
}

}  // namespace trireme::prepare
