#include "trireme/prepare/stages.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/comm/sum/segment_sum.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/recompute.h"
#include "trireme/graph/storage.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/lower/faster_graph.h"
#include "trireme/op/forms.h"
#include "trireme/parallel/piece.h"
#include "trireme/parallel/pipeline/continuous.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/batch.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/own_update.h"
#include "trireme/prepare/stage_cuts.h"
#include "trireme/prepare/tiles.h"

namespace trireme::prepare {
namespace {

using graph::Graph;
using parallel::LayerList;
using parallel::SegmentedModel;

std::vector<std::string> forward_outputs(const Graph& train) {
  std::vector<std::string> names;
  for (const auto& [name, v] : train.outputs())
    if (!name.starts_with("grad:")) names.push_back(name);
  return names;
}

std::vector<std::string> names_of(const std::vector<model::Parameter>& parameters) {
  std::vector<std::string> names;
  for (const model::Parameter& p : parameters) names.push_back(p.name);
  return names;
}

// A forward graph between whose layers the model is cut, as the plan says.
Result<SegmentedModel> cut_as_planned(const Graph& forward, const plan::Plan& plan,
                                      const std::vector<std::string>& trained, bool scales_loss) {
  const LayerList list = parallel::layers_of(forward);
  TR_ASSIGN_OR_RETURN(const parallel::Cuts cuts, parallel::named_cuts(forward, list, plan.segment_cuts));
  return parallel::cut_model({&forward, &list, cuts, trained, scales_loss});
}

Result<Graph> forward_of(const Graph& train) {
  return graph::eliminate_dead_code(train, forward_outputs(train));
}

// Graphs of whole types, with gradients of the parameters that are trained.
Result<SegmentedModel> train_segments(const job::Job& job, const Prepared& p, std::int64_t batch) {
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, p.input, batch));
  TR_ASSIGN_OR_RETURN(const Graph forward, forward_of(model.train));
  return cut_as_planned(forward, p.plan, names_of(p.parameters), job.train.precision == "f16");
}

Result<SegmentedModel> eval_segments(const job::Job& job, const Prepared& p) {
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs judged, job::build_job_model(job, p.input, p.eval_batch));
  TR_ASSIGN_OR_RETURN(const Graph scored, forward_graph(judged.eval, {"loss", "correct"}));
  return cut_as_planned(scored, p.plan, {}, false);
}

// By variable and statistic, the segments that read or make it.
std::map<std::string, std::vector<std::int32_t>> users_of(const SegmentedModel& model) {
  std::map<std::string, std::vector<std::int32_t>> users;
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    for (const auto& [name, v] : model.segments[s].graph.variables())
      users[name].push_back(static_cast<std::int32_t>(s));
    for (const std::string& name : model.segments[s].forward)
      if (name.starts_with("stat:")) users[name.substr(5)].push_back(static_cast<std::int32_t>(s));
  }
  return users;
}

// Variables lie on the stages whose segments read them; what none reads lies on the first.
Status lay_out(const job::Job& job, const SegmentedModel& model, Prepared& out) {
  plan::Plan& plan = out.plan;
  const auto users = users_of(model);
  const parallel::Mesh mesh = plan.mesh();
  const auto stage_axis = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                                       [](const auto& a) { return a.name == parallel::kStageAxis; });
  const auto before = std::exchange(plan.layouts, {});
  const auto put = [&](const std::string& name, const std::string& like) {
    parallel::Layout layout = parallel::Layout::replicate(mesh);
    if (const auto lay = before.find(name); lay != before.end() && plan.tiles > 1)
      layout.axes.back() = lay->second.axes.back();
    const auto found = users.find(like);
    if (stage_axis != mesh.axes.end())
      layout.axes[static_cast<std::size_t>(stage_axis - mesh.axes.begin())] = parallel::AxisLayout::at(
          stages_with(plan, found != users.end() ? found->second : std::vector<std::int32_t>{0}));
    plan.layouts[name] = std::move(layout);
  };
  for (const auto* list : {&out.parameters, &out.frozen})
    for (const model::Parameter& p : *list) put(p.name, p.name);
  for (const model::Statistic& s : out.statistics) put(s.name, s.name);
  TR_ASSIGN_OR_RETURN(const auto states, model::optimizer_states(job::optimizer_spec(job), out.parameters));
  for (const model::StateVariable& s : states) {
    const auto of = std::find_if(out.parameters.begin(), out.parameters.end(),
                                 [&](const auto& p) { return p.name == s.parameter; });
    if (of == out.parameters.end() || of->type.shape != s.type.shape) put(s.name, s.parameter);
  }
  return {};
}

// Those that are synchronous have the same bits, others learn something else.
Status check_timetable_change(const std::string& before, const std::string& now, bool fixed) {
  const auto row = parallel::find_timetable_row(before);
  TR_ASSIGN_OR_RETURN(const parallel::TimetableRow* const asked, parallel::find_timetable_row(now));
  if (!fixed || before == now || !row.ok() || ((*row)->is_synchronous && asked->is_synchronous)) return {};
  return error(
      Code::kInvalid,
      "[plan] parallel.pipeline = {}, and this run has learned with {}, by weights of other ages; use "
      "that, or a new run folder",
      now, before);
}

// Gradients of what several stages read would wait for each other in every update.
Status check_tied(const SegmentedModel& model, const PrepareOptions& options, const plan::Plan& plan) {
  if (plan.pipeline != "async" || options.stages == 1) return {};
  for (const auto& [name, segments] : users_of(model)) {
    const std::vector<int> stages = stages_with(plan, segments);
    if (stages.size() > 1)
      return error(Code::kInvalid,
                   "[plan] '{}' is read at stages {}, and with parallel.pipeline = async its gradients there "
                   "are of different updates; use 2bw or a synchronous one, or cut the model so that one "
                   "stage reads it (parallel.stage_cuts)",
                   name, fmt::join(stages, " and "));
  }
  return {};
}

SegmentTiles tiles_of(const PrepareOptions& options, const plan::Plan& plan) {
  const cost::Rates rates = rates_of(options);
  SegmentTiles over;
  over.tiles = plan.tiles;
  over.costs = {rates.comm, rates.machine, 1};
  for (const auto& [name, layout] : plan.layouts) over.cuts.emplace(name, layout.axes.back().to_option());
  return over;
}

// How the graphs of segments are cut over tiles, with the variables as the whole model's are.
Status cut_over_tiles(const job::Job& job, const PrepareOptions& options, const SegmentedModel& train,
                      Prepared& out) {
  plan::Plan& plan = out.plan;
  const SegmentTiles over = tiles_of(options, plan);
  TR_ASSIGN_OR_RETURN(const SegmentedModel eval, eval_segments(job, out));
  for (std::size_t s = 0; s < train.segments.size(); ++s) {
    TR_ASSIGN_OR_RETURN(auto cuts, choose_segment(job, train.segments[s].graph, over));
    plan.segment_train_cuts.push_back(std::move(cuts));
    TR_ASSIGN_OR_RETURN(cuts, choose_segment(job, eval.segments[s].graph, over));
    plan.segment_eval_cuts.push_back(std::move(cuts));
  }
  return {};
}

// Slots of what passes the ends of virtual stages: forward, and the next one back.
Result<std::vector<std::vector<std::int32_t>>> slots_between(const Stages& stages,
                                                             const std::vector<parallel::Crossing>& crossings,
                                                             std::int64_t first) {
  std::vector<std::vector<std::int32_t>> slots(crossings.size());
  std::int64_t next = first;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    slots[i].assign(stages.first_segments.size(), -1);
    const std::int32_t last = stages.virtual_stage_of(crossings[i].last);
    for (std::int32_t v = stages.virtual_stage_of(crossings[i].from); v < last; ++v, next += 2)
      slots[i][static_cast<std::size_t>(v)] = static_cast<std::int32_t>(next);
  }
  if (next <= first + plan::kGraphSlots / 2) return slots;
  return error(
      Code::kExhausted,
      "[plan] {} values pass between {} virtual stages, which needs {} message slots, and there are {}; "
      "use fewer stages, or cut the model where fewer values pass (parallel.stage_cuts)",
      crossings.size(), stages.first_segments.size(), next - first, plan::kGraphSlots / 2);
}

// Parameters whose gradients the forward and backward outputs need too.
Result<std::vector<std::string>> early_gradients(const Graph& graph, const parallel::Segment& segment) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false);
  for (const auto* list : {&segment.forward, &segment.backward})
    for (const std::string& name : *list)
      needed[static_cast<std::size_t>(graph.find_output(name)->node)] = true;
  for (std::int32_t i = graph.size() - 1; i >= 0; --i)
    if (needed[static_cast<std::size_t>(i)])
      for (const graph::Value v : graph.node(i).inputs) needed[static_cast<std::size_t>(v.node)] = true;
  const graph::ValueMap<graph::Value> roots = graph::storage_roots(graph);
  std::vector<std::string> early;
  for (const std::string& name : segment.weights) {
    const auto v = graph.find_output(name);
    TR_CHECK(v.has_value() && name.starts_with("grad:"), "output '{}' of a segment", name);
    if (needed[static_cast<std::size_t>(roots[*v].node)]) early.push_back(name.substr(5));
  }
  return early;
}

// B and W that follow each other directly: what W makes is made in B, so that nothing lives between them. The
// graph is lowered as if they were two, hence timetables that split them have the same bits.
void run_as_one(std::vector<std::vector<std::string>>& phases) {
  std::vector<std::string>& both = phases[kBackwardPhase];
  both.insert(both.end(), phases[kWeightsPhase].begin(), phases[kWeightsPhase].end());
  phases[kWeightsPhase].clear();
}

// What gradients of weights alone need, also where B makes them.
cost::OpCost cost_of_weights(const Graph& graph) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false), back = needed;
  for (const auto& [name, v] : graph.outputs())
    (name.starts_with("grad:") ? needed : back)[static_cast<std::size_t>(v.node)] = true;
  const graph::ValueMap<graph::Value> roots = graph::storage_roots(graph);
  cost::OpCost cost;
  for (std::int32_t i = graph.size() - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    for (const graph::Value v : graph.node(i).inputs) {
      const auto from = static_cast<std::size_t>(v.node);
      back[from] = back[from] || back[at];
      needed[from] = needed[from] || needed[at];
    }
    if (needed[at] && !back[at] && !graph::is_free(graph, i, roots)) cost += graph::node_cost(graph, i);
  }
  return cost;
}

void note_costs(const StageSegment& segment, SegmentCost& cost) {
  cost.work = std::make_shared<const PhaseWork>(phase_work(*segment.train));
  for (int phase = 0; phase < kNumTrainPhases; ++phase) cost.phases[phase] = segment.train->phase_cost(phase);
  if (!segment.outputs[kWeightsPhase].empty()) return;
  cost::OpCost& both = cost.phases[kBackwardPhase];
  const cost::OpCost weights = cost_of_weights(segment.train->graph());
  cost.phases[kWeightsPhase] = weights;
  both.flops -= weights.flops;
  both.bytes -= weights.bytes;
  both.work -= weights.work;
  both.depth -= weights.depth;
}

exec::CompileOptions phased(exec::CompileOptions options, const std::vector<std::vector<std::string>>& phases,
                            const std::vector<std::string>& early) {
  options.phases = phases;
  const auto is_kept = [&](const std::string& name) {
    return name == "loss" || name == "correct" || name.starts_with("stat:") ||
           (name.starts_with("grad:") &&
            std::find(early.begin(), early.end(), name.substr(5)) != early.end());
  };
  for (const auto& list : phases)
    for (const std::string& name : list) {
      options.fetches.push_back(name);
      if (!is_kept(name)) options.bound.push_back(name);
    }
  return options;
}

// One phase: what it needs is in scratch memory, which segments share, as they are evaluated one by one.
Result<Compiled> compile_eval(const job::Job& job, const Graph& graph, exec::CompileOptions options) {
  TR_ASSIGN_OR_RETURN(const Graph fast, lower::faster_graph({job.train.precision, nullptr}, graph));
  options.phases.resize(1);
  for (const auto& [name, v] : fast.outputs()) {
    options.phases[0].push_back(name);
    if (name.starts_with("over:")) options.bound.push_back(name);
  }
  return exec::compile(fast, std::move(options));
}

void note_kernels(const Compiled& compiled, std::map<std::string, std::string>& kernels) {
  const std::map<std::string, std::string> own = compiled->kernels();
  for (const auto& [op, kernel] : own) {
    const auto [at, added] = kernels.try_emplace(op, kernel);
    if (added || at->second == kernel) continue;
    const graph::Graph& g = compiled->graph();
    for (std::int32_t i = 0; i < g.size(); ++i) {  // of this segment's nodes it is an exception
      if (op::formed_name(*g.node(i).def, g.node(i).forms) != op) continue;
      const std::string node = op + ":" + g.node(i).name;
      const auto named = own.find(node);  // which may be one among them too
      kernels.try_emplace(node, named == own.end() ? kernel : named->second);
    }
  }
}

// One tile has none.
parallel::StoredOptions stored_at(const std::vector<parallel::StoredOptions>& cuts, std::size_t segment) {
  return segment < cuts.size() ? cuts[segment] : parallel::StoredOptions();
}

std::vector<std::size_t> buckets_of(const plan::Plan& plan, std::int32_t segment) {
  std::vector<std::size_t> out;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& of = plan.buckets[b].segments;
    if (std::find(of.begin(), of.end(), segment) != of.end()) out.push_back(b);
  }
  return out;
}

// Compiles segments of the model, one after the other: the slots of their collectives are numbered on.
struct SegmentCompiler {
  const job::Job& job;
  const exec::CompileOptions& kernels;
  const Prepared& prepared;
  std::int64_t train_slot, eval_slot;

  Result<StageSegment> compile(std::int32_t g, const parallel::Segment& segment, const Graph& forward) {
    const plan::Plan& plan = prepared.plan;
    const auto at = static_cast<std::size_t>(g);
    TR_ASSIGN_OR_RETURN(const Graph own,
                        tile_of_segment(job, segment.graph, stored_at(plan.segment_train_cuts, at), plan,
                                        prepared.tile, train_slot));
    TR_ASSIGN_OR_RETURN(
        const Graph own_eval,
        tile_of_segment(job, forward, stored_at(plan.segment_eval_cuts, at), plan, prepared.tile, eval_slot));
    const lower::Target target{
        job.train.precision, nullptr, {segment.forward, segment.backward, segment.weights}};
    TR_ASSIGN_OR_RETURN(Graph fast, lower::faster_graph(target, own));
    if (!job.options.flag(job::kWeightStashing)) {
      TR_ASSIGN_OR_RETURN(fast, graph::reread_variables(fast, segment.forward));
    }
    StageSegment out{g, nullptr, nullptr, buckets_of(plan, g), {}, target.phases};
    if (splits_weights(prepared)) {
      TR_ASSIGN_OR_RETURN(out.early, early_gradients(fast, segment));
    } else {
      run_as_one(out.outputs);
    }
    TR_ASSIGN_OR_RETURN(out.train, exec::compile(fast, phased(kernels, out.outputs, out.early)));
    for (const std::string& input : out.train->inputs_of_phase(kForwardPhase))
      TR_CHECK(!input.starts_with("back:"), "forward of segment {} reads the gradient '{}'", g, input);
    TR_ASSIGN_OR_RETURN(out.eval, compile_eval(job, own_eval, kernels));
    return out;
  }
};

// The gradients of a segment are on their way to the replicas while the next one writes its own: two turns.
void place_written(const plan::Plan& plan, Stages& stages) {
  constexpr std::int64_t kLineElems = 16;
  std::int64_t elems[2] = {0, 0};
  for (std::size_t s = 0; s < stages.segments.size(); ++s) {
    StageSegment& own = stages.segments[s];
    own.turn = static_cast<int>(s % 2);
    std::int64_t at = 0;
    for (const std::size_t b : own.buckets) {
      own.written_at.push_back(at);
      at += (plan.buckets[b].num_elems + kLineElems - 1) / kLineElems * kLineElems;
    }
    elems[own.turn] = std::max(elems[own.turn], at);
  }
  for (StageSegment& s : stages.segments)
    for (std::int64_t& at : s.written_at) at += s.turn == 1 ? elems[0] : 0;
  stages.written_elems = elems[0] + elems[1];
}

double crossing_bytes(const SegmentedModel& model, std::int32_t at) {
  double bytes = 0;
  for (const parallel::Crossing* c : model.between(at)) bytes += static_cast<double>(c->type.num_bytes());
  return bytes;
}

}  // namespace

std::vector<int> stages_with(const plan::Plan& plan, const std::vector<std::int32_t>& segments) {
  const int stages = plan.cell_owners().stages();
  std::set<int> found;
  for (const std::int32_t g : segments)
    for (std::size_t v = 0; v < plan.segment_owners.size(); ++v) {
      const collective::LeafRun& run = plan.segment_owners[v];
      if (g >= run.first && g < run.first + run.count) found.insert(static_cast<int>(v) % stages);
    }
  return {found.begin(), found.end()};
}

bool splits_weights(const Prepared& prepared) {
  const auto row = parallel::find_timetable_row(prepared.plan.pipeline);
  return prepared.deals_shards || !row.ok() || (*row)->splits_weights;
}

std::int32_t Stages::virtual_stage_of(std::int32_t segment) const {
  const auto next = std::upper_bound(first_segments.begin(), first_segments.end(), segment);
  return static_cast<std::int32_t>(next - first_segments.begin()) - 1;
}

int Stages::stage_of(std::int32_t segment) const { return timetable.stage_of(virtual_stage_of(segment)); }

const StageSegment* Stages::find(std::int32_t segment) const {
  const auto found = std::find_if(segments.begin(), segments.end(),
                                  [&](const StageSegment& s) { return s.index == segment; });
  return found != segments.end() ? &*found : nullptr;
}

namespace {

// In front of every layer.
parallel::Cuts every_cut(const LayerList& list) {
  parallel::Cuts cuts;
  for (std::size_t l = 1; l < list.layers.size(); ++l) cuts.layers.push_back(static_cast<std::int32_t>(l));
  return cuts;
}

// How the replicas divide what a stage holds (Plan::zero_level), before a plan has it.
struct Division {
  std::int64_t replicas = 1;
  std::int32_t level = 0;
  bool deals_shards = false;
  std::int64_t sums = 1;  // vectors of the gradients that are summed

  std::int64_t part(std::int64_t all) const { return (all + replicas - 1) / replicas; }
};

Division division_of(const job::Job& job, const PrepareOptions& options, const DepthModel& model,
                     const Prepared& p) {
  const std::int32_t shards = model.logical_shards;
  plan::Plan ahead;
  ahead.segments = std::max(p.plan.segments, job::segments_of(job));
  ahead.logical_shards = shards;
  ahead.owners = parallel::even_runs(shards, options.replicas);
  ahead.zero = static_cast<std::int32_t>(job.options.integer(job::kZero));
  const collective::LeafRun run = ahead.owners[0];
  Division out{options.replicas, ahead.zero_level(), can_deal_shards(job, ahead)};
  const bool is_coded = !job::sending_of(job).is(job::Sending::Kind::kDense);
  const comm::Counter counter =
      out.deals_shards ? comm::count_up({0, run.count}, run.count) : comm::count_up(run, shards);
  out.sums = is_coded ? run.count : counter.num_vectors;
  if (job.train.optimizer.max_batch_multiplier > 1) out.sums += run.count;
  return out;
}

// The variables that a segment reads, what the optimizer keeps of them, gradients, and the copy that is
// written. Gradients of a segment whose sums are divided, and weights that are, lie in memory that segments
// use in turn.
Status hold_variables(const job::Job& job, const Graph& segment, const Prepared& p, const Division& division,
                      parallel::PieceBytes& bytes) {
  const auto reads = [&](const std::string& name) { return segment.find_variable(name).has_value(); };
  const auto bytes_of = [](const auto& v) { return static_cast<std::int64_t>(v.type.num_bytes()); };
  std::vector<model::Parameter> trained;
  std::int64_t weights = 0, gradients = 0, frozen = 0, kept = 0;
  for (const model::Parameter& v : p.parameters)
    if (reads(v.name)) trained.push_back(v);
  for (const model::Parameter& v : trained) {
    weights += bytes_of(v);
    gradients += 4 * v.type.shape.num_elems();
  }
  for (const model::Parameter& v : p.frozen) frozen += reads(v.name) ? bytes_of(v) : 0;
  TR_ASSIGN_OR_RETURN(const auto states, model::optimizer_states(job::optimizer_spec(job), trained));
  for (const model::StateVariable& v : states) kept += bytes_of(v);
  if (division.level >= 1) kept = division.part(kept);
  const std::int64_t own = division.level == 3 ? division.part(weights) : weights;
  bytes.held = 2 * (own + frozen + kept);
  bytes.in_turn = weights - own;
  bytes.version = gradients;
  if (division.deals_shards) {
    bytes.held += division.sums * division.part(gradients);
    bytes.in_turn += gradients;
  } else {
    bytes.held += (1 + division.sums) * gradients;
  }
  return {};
}

// What this tile computes of a layer that is a segment of its own.
Result<Graph> tile_of_layer(const job::Job& job, const SegmentTiles& over, const Prepared& p,
                            const Graph& layer) {
  if (over.tiles == 1) return layer;
  std::int64_t slot = first_train_slot();
  TR_ASSIGN_OR_RETURN(const parallel::StoredOptions cuts, choose_segment(job, layer, over));
  return tile_of_segment(job, layer, cuts, p.plan, p.tile, slot);
}

Result<LayerBytes> bytes_of_layers(const job::Job& job, const PrepareOptions& options,
                                   const DepthModel& model, const Prepared& p) {
  const Division division = division_of(job, options, model, p);
  const collective::LeafRun run = parallel::even_runs(model.logical_shards, options.replicas)[0];
  const SegmentTiles over = tiles_of(options, p.plan);
  exec::CompileOptions kernels;
  kernels.width = model.shard_threads;
  kernels.tf32 = job.train.precision == "tf32";
  TR_ASSIGN_OR_RETURN(const SegmentedModel train,
                      parallel::cut_model({model.forward,
                                           model.layers,
                                           every_cut(*model.layers),
                                           {model.trained.begin(), model.trained.end()},
                                           job.train.precision == "f16"}));
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs judged, job::build_job_model(job, p.input, p.eval_batch));
  TR_ASSIGN_OR_RETURN(const Graph scored, forward_graph(judged.eval, {"loss", "correct"}));
  const LayerList list = parallel::layers_of(scored);
  TR_ASSIGN_OR_RETURN(const SegmentedModel eval, parallel::cut_model({&scored, &list, every_cut(list), {}}));
  TR_ASSIGN_OR_RETURN(const parallel::TimetableRow* row,
                      parallel::find_timetable_row(job.options.text(job::kPipeline)));
  const bool splits = row->splits_weights || division.deals_shards;
  LayerBytes out;
  for (const parallel::Segment& s : train.segments) {
    TR_ASSIGN_OR_RETURN(const Graph own, tile_of_layer(job, over, p, s.graph));
    TR_ASSIGN_OR_RETURN(
        const Graph fast,
        lower::faster_graph({job.train.precision, nullptr, {s.forward, s.backward, s.weights}}, own));
    std::vector<std::vector<std::string>> phases{s.forward, s.backward, s.weights};
    std::vector<std::string> early;
    if (splits) {
      TR_ASSIGN_OR_RETURN(early, early_gradients(fast, s));
    } else {
      run_as_one(phases);
    }
    TR_ASSIGN_OR_RETURN(const Compiled compiled, exec::compile(fast, phased(kernels, phases, early)));
    parallel::PieceBytes& bytes = out.layers.emplace_back();
    TR_RETURN_IF_ERROR(hold_variables(job, s.graph, p, division, bytes));
    const auto at = static_cast<std::int32_t>(out.layers.size()) - 1;
    bytes.kept = compiled->arena_bytes() + static_cast<std::int64_t>(crossing_bytes(train, at));
    bytes.scratch = compiled->scratch_bytes() + static_cast<std::int64_t>(crossing_bytes(train, at));
    if (at >= static_cast<std::int32_t>(eval.segments.size())) continue;
    // Layers of a stage evaluate one after the other, in the same memory.
    TR_ASSIGN_OR_RETURN(const Graph judged_here,
                        tile_of_layer(job, over, p, eval.segments[static_cast<std::size_t>(at)].graph));
    TR_ASSIGN_OR_RETURN(const Compiled judge, compile_eval(job, judged_here, kernels));
    bytes.scratch +=
        std::max(judge->arena_bytes() + judge->scratch_bytes(),
                 static_cast<std::int64_t>(crossing_bytes(eval, at - 1) + crossing_bytes(eval, at)));
  }
  const std::int64_t samples =
      options.fixed != nullptr ? p.plan.shard_batch : shard_batch_of(job, options.replicas);
  TR_ASSIGN_OR_RETURN(const std::int64_t of_batch, batch_bytes(p.input, samples));
  TR_ASSIGN_OR_RETURN(const std::int64_t of_eval, batch_bytes(p.input, p.eval_batch));
  out.common = of_batch * run.count * (job.data.prefetch + 1) + of_eval;
  return out;
}

}  // namespace

Status cut_depth(const job::Job& job, const PrepareOptions& options, bool fixed, Prepared& out) {
  plan::Plan& plan = out.plan;
  if (options.like != nullptr) return lay_out(job, *options.like->stages->whole_train, out);
  const std::int64_t batch = fixed ? plan.shard_batch : shard_batch_of(job, options.replicas);
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, out.input, batch));
  TR_ASSIGN_OR_RETURN(const Graph forward, forward_of(model.train));
  const LayerList list = parallel::layers_of(forward);
  const std::vector<std::string> trained = names_of(out.parameters);
  DepthModel whole{&forward, &list, trained};
  whole.logical_shards = fixed ? plan.logical_shards : logical_shards_of(job, options.replicas);
  whole.shard_threads = shard_threads_of(job, options);
  whole.bytes = [&] { return bytes_of_layers(job, options, whole, out); };
  parallel::Cuts cuts;
  const auto& asked = job.parallel.stage_cuts;
  if (fixed || (asked && !asked->empty())) {
    TR_ASSIGN_OR_RETURN(cuts, parallel::named_cuts(forward, list, fixed ? plan.segment_cuts : *asked));
  } else {
    TR_ASSIGN_OR_RETURN(cuts, choose_segments(job, options, whole));
  }
  plan.segments = cuts.segments();
  plan.segment_cuts.clear();
  for (const std::int32_t layer : cuts.layers)
    plan.segment_cuts.push_back(list.layers[static_cast<std::size_t>(layer)].name);
  TR_RETURN_IF_ERROR(check_timetable_change(plan.pipeline, job.options.text(job::kPipeline), fixed));
  plan.pipeline = job.options.text(job::kPipeline);
  plan.virtual_stages =
      options.stages > 1 ? static_cast<std::int32_t>(job.options.integer(job::kVirtualStages)) : 1;
  const std::int32_t chain = options.stages * plan.virtual_stages;
  if (chain > plan.segments)
    return error(
        Code::kInvalid,
        "[plan] this run cuts the model into {} segments, and parallel.mesh has {} stages{}; use fewer "
        "stages, or a new run folder with train.segments = {}",
        plan.segments, options.stages,
        plan.virtual_stages > 1 ? fmt::format(" of {} virtual stages", plan.virtual_stages) : "", chain);
  const bool owners_stand =
      fixed && options.owners_stand && static_cast<std::int32_t>(plan.segment_owners.size()) == chain;
  if (!owners_stand) {
    TR_ASSIGN_OR_RETURN(plan.segment_owners, share_segments(job, options, whole, cuts));
  }
  plan.owners = parallel::even_runs(fixed ? plan.logical_shards : options.replicas, options.replicas);
  TR_ASSIGN_OR_RETURN(const SegmentedModel segments,
                      cut_as_planned(forward, plan, trained, job.train.precision == "f16"));
  TR_RETURN_IF_ERROR(check_tied(segments, options, plan));
  TR_RETURN_IF_ERROR(lay_out(job, segments, out));
  if (fixed || plan.tiles == 1) return {};
  return cut_over_tiles(job, options, segments, out);
}

Result<std::vector<plan::Bucket>> segment_buckets(const job::Job& job, const Prepared& prepared,
                                                  const std::vector<plan::ParameterSize>& sizes,
                                                  std::int64_t bucket_bytes) {
  TR_ASSIGN_OR_RETURN(const SegmentedModel model, train_segments(job, prepared, 1));
  const auto users = users_of(model);
  struct Group {
    std::vector<plan::ParameterSize> parameters, statistics;
  };
  std::map<std::vector<std::int32_t>, Group> groups;
  const auto segments_of = [&](const std::string& name) {
    const auto found = users.find(name);
    return found != users.end() ? found->second : std::vector<std::int32_t>{0};
  };
  for (const plan::ParameterSize& p : sizes) {
    auto& group = groups[segments_of(p.name)].parameters;
    if (segments_of(p.name).size() == 1)
      group.push_back(p);
    else
      group.push_back({p.name, p.num_elems});  // added in 32 bits, segment by segment
  }
  for (const model::Statistic& s : prepared.statistics)
    groups[segments_of(s.name)].statistics.push_back({s.name, s.type.shape.num_elems()});
  std::vector<plan::Bucket> all;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group)
    for (plan::Bucket& bucket : plan::make_buckets(group->second.parameters, bucket_bytes,
                                                   job.parallel.collective, group->second.statistics)) {
      bucket.segments = group->first;
      bucket.slot = static_cast<std::uint16_t>(all.size());
      all.push_back(std::move(bucket));
    }
  return all;
}

Status take_stage(const job::Job& job, int stage, Prepared& out) {
  plan::Plan& plan = out.plan;
  out.whole_buckets = plan.buckets;
  if (plan.cell_owners().stages() == 1) return {};
  const parallel::Mesh mesh = plan.mesh();
  const auto is_here = [&](const std::string& name) {
    const auto layout = plan.layouts.find(name);
    const auto axis = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                                   [](const auto& a) { return a.name == parallel::kStageAxis; });
    return layout == plan.layouts.end() ||
           layout->second.axes[static_cast<std::size_t>(axis - mesh.axes.begin())].is_at(stage);
  };
  TR_ASSIGN_OR_RETURN(const auto whole_states,
                      model::optimizer_states(job::optimizer_spec(job), out.parameters));
  const auto empty = [&](const std::string& name, TensorType& type) {
    if (is_here(name) || type.shape.rank() == 0) return;
    out.wholes.emplace(name, type);
    type.shape.set(0, 0);
  };
  for (auto* list : {&out.parameters, &out.frozen})
    for (model::Parameter& p : *list) empty(p.name, p.type);
  for (model::Statistic& s : out.statistics) empty(s.name, s.type);
  TR_ASSIGN_OR_RETURN(out.states, model::optimizer_states(job::optimizer_spec(job), out.parameters));
  for (std::size_t i = 0; i < out.states.size(); ++i)
    if (out.states[i].type != whole_states[i].type)
      out.wholes.emplace(whole_states[i].name, whole_states[i].type);
  for (plan::Bucket& bucket : plan.buckets) {
    const std::vector<int> stages = stages_with(plan, bucket.segments);
    if (std::find(stages.begin(), stages.end(), stage) != stages.end()) continue;
    bucket.num_elems = 0;
    bucket.metrics_offset = -1;
    std::fill(bucket.offsets.begin(), bucket.offsets.end(), 0);
    std::fill(bucket.statistic_offsets.begin(), bucket.statistic_offsets.end(), 0);
  }
  return {};
}

Status compile_stages(const job::Job& job, const PrepareOptions& options, const exec::CompileOptions& kernels,
                      Prepared& out) {
  const plan::Plan& plan = out.plan;
  auto stages = std::make_shared<Stages>();
  stages->stage = options.stage;
  stages->timetable =
      timetable_of(job, plan.cell_owners().stages(), plan.virtual_stages, plan.owners[0].count);
  TR_ASSIGN_OR_RETURN(const parallel::TimetableRow* row, parallel::find_timetable_row(plan.pipeline));
  stages->is_synchronous = row->is_synchronous;
  stages->splits_weights = splits_weights(out);
  for (const collective::LeafRun& run : plan.segment_owners) stages->first_segments.push_back(run.first);
  if (options.like != nullptr) {
    stages->whole_train = options.like->stages->whole_train;
    stages->whole_eval = options.like->stages->whole_eval;
  } else {
    TR_ASSIGN_OR_RETURN(SegmentedModel made, train_segments(job, out, plan.shard_batch));
    stages->whole_train = std::make_shared<const SegmentedModel>(std::move(made));
    TR_ASSIGN_OR_RETURN(made, eval_segments(job, out));
    stages->whole_eval = std::make_shared<const SegmentedModel>(std::move(made));
  }
  const SegmentedModel &train = *stages->whole_train, &eval = *stages->whole_eval;
  stages->train = train.crossings;
  stages->eval = eval.crossings;
  TR_ASSIGN_OR_RETURN(stages->train_slots, slots_between(*stages, train.crossings, first_train_slot()));
  TR_ASSIGN_OR_RETURN(stages->eval_slots, slots_between(*stages, eval.crossings, first_eval_slot()));
  SegmentCompiler compiler{job, kernels, out, first_train_slot(), first_eval_slot()};
  for (std::int32_t g = 0; g < plan.segments; ++g) {
    const auto at = static_cast<std::size_t>(g);
    const bool is_own = stages->stage_of(g) == options.stage;
    SegmentCost cost;
    if (options.like != nullptr) {
      cost = options.like->stages->costs[at];
      compiler.train_slot = cost.train_slot;
      compiler.eval_slot = cost.eval_slot;
      stages->costs.push_back(cost);
      if (!is_own) continue;
    }
    cost.train_slot = compiler.train_slot;
    cost.eval_slot = compiler.eval_slot;
    TR_ASSIGN_OR_RETURN(StageSegment segment,
                        compiler.compile(g, train.segments[at], eval.segments[at].graph));
    note_kernels(segment.train, stages->kernels);
    note_kernels(segment.eval, stages->kernels);
    note_costs(segment, cost);
    cost.sent_bytes = crossing_bytes(train, g);
    if (options.like == nullptr) stages->costs.push_back(cost);
    if (is_own) stages->segments.push_back(std::move(segment));
  }
  TR_RETURN_IF_ERROR(parallel::check_timetable(stages->timetable));
  if (out.deals_shards) place_written(plan, *stages);
  out.stages = std::move(stages);
  return {};
}

Status keep_less(const exec::CompileOptions& kernels, std::size_t segment, std::int64_t save_bytes,
                 Prepared& out) {
  auto stages = std::make_shared<Stages>(*out.stages);
  StageSegment& own = stages->segments[segment];
  TR_ASSIGN_OR_RETURN(const Graph less,
                      graph::recompute_between(own.train->graph(), own.outputs, save_bytes));
  TR_ASSIGN_OR_RETURN(own.train, exec::compile(less, phased(kernels, own.outputs, own.early)));
  note_costs(own, stages->costs[static_cast<std::size_t>(own.index)]);
  out.stages = std::move(stages);
  return {};
}

bool can_deal_shards(const job::Job& job, const plan::Plan& plan) {
  const int replicas = plan.workers();
  return plan.segments > 1 && plan.zero_level() >= 2 && !job::waits_for_all(job) &&
         job.train.optimizer.max_batch_multiplier == 1 && (replicas & (replicas - 1)) == 0 &&
         plan.logical_shards % replicas == 0;
}

plan::StepCosts segment_costs(const Prepared& prepared) {
  const Stages& stages = *prepared.stages;
  const auto count = static_cast<std::int32_t>(stages.costs.size());
  plan::StepCosts costs;
  for (const SegmentCost& s : stages.costs) {
    costs.strands.push_back(s.phases[kForwardPhase]);
    costs.strand_work.push_back(s.work->phases[kForwardPhase]);
  }
  for (auto s = stages.costs.rbegin(); s != stages.costs.rend(); ++s) {
    cost::OpCost back = s->phases[kBackwardPhase];
    back += s->phases[kWeightsPhase];
    costs.strands.push_back(back);
    cost::Work work = s->work->phases[kBackwardPhase];
    const cost::Work& weights = s->work->phases[kWeightsPhase];
    work.insert(work.end(), weights.begin(), weights.end());
    costs.strand_work.push_back(std::move(work));
  }
  for (const plan::Bucket& b : prepared.plan.buckets) {
    costs.needed_before.push_back(b.segments.front());
    costs.final_after.push_back(2 * count - 1 - b.segments.front());
  }
  costs.loss_after = count - 1;
  costs.updates_wait = prepared.finite_check != nullptr;
  for (const Compiled& update : prepared.updates) {
    costs.updates.push_back(update != nullptr ? update->cost() : cost::OpCost());
    costs.update_work.push_back(update != nullptr ? work_of(*update) : cost::Work());
  }
  return costs;
}

bool Prepared::never_drains() const { return stages != nullptr && !stages->is_synchronous; }

std::int64_t Prepared::steps_ahead() const {
  if (!never_drains()) return 0;
  const parallel::TimetableRow* const row = *parallel::find_timetable_row(stages->timetable.kind);
  return parallel::steps_ahead(stages->timetable, *row, stages->stage);
}

std::int32_t part_of_segment(const plan::Plan& plan, std::int32_t segment) {
  return plan.segments + 1 - segment;
}

plan::StepParts segment_parts(const Prepared& prepared) {
  plan::StepParts parts;
  for (std::int32_t p = 0; p <= prepared.plan.segments + 3; ++p) parts.cuts.push_back(p);
  for (const plan::Bucket& b : prepared.plan.buckets) {
    parts.needed_by.push_back(0);
    parts.final_after.push_back(part_of_segment(prepared.plan, b.segments.front()));
  }
  parts.loss_after = 1;
  parts.updates_wait = prepared.finite_check != nullptr;
  return parts;
}

namespace {

// Values between segments that a micro-batch has on this stage: forward, and gradients, to which every reader
// adds its own.
std::int64_t bytes_between(const std::vector<parallel::Crossing>& crossings, std::int32_t first,
                           std::int32_t last) {
  std::int64_t bytes = 0;
  for (const parallel::Crossing& c : crossings) {
    if (c.from > last || c.last < first) continue;
    std::int64_t copies = 1;
    if (c.comes_back) {
      copies += c.last > last ? 1 : 0;
      copies += std::count_if(c.readers.begin(), c.readers.end(),
                              [&](std::int32_t reader) { return reader >= first && reader <= last; });
    }
    bytes += copies * static_cast<std::int64_t>(c.type.num_bytes());
  }
  return bytes;
}

}  // namespace

Result<StageBytes> stage_bytes(const Prepared& prepared, int replica) {
  const Stages& stages = *prepared.stages;
  const plan::Plan& plan = prepared.plan;
  const collective::LeafRun run = plan.owners[static_cast<std::size_t>(replica)];
  parallel::TimetableSpec spec = stages.timetable;
  spec.micro_batches = run.count;
  if (!stages.is_synchronous) spec.micro_batches *= spec.stages + 1;  // as in a run without an end
  TR_ASSIGN_OR_RETURN(const parallel::StageActions actions, build_timetable(spec, stages.stage));
  StageBytes out;
  std::map<std::int32_t, std::int64_t> now, &most = out.in_flight;
  for (const parallel::TimetableAction& a : actions) {
    if (a.phase == parallel::Phase::kForward) ++now[a.virtual_stage];
    if (a.phase == parallel::Phase::kWeights) --now[a.virtual_stage];
    most[a.virtual_stage] = std::max(most[a.virtual_stage], now[a.virtual_stage]);
  }
  const parallel::TimetableRow* const row = *parallel::find_timetable_row(spec.kind);
  for (const plan::Bucket& b : plan.buckets)
    out.versions += 4 * b.num_elems * (row->weight_versions(spec, stages.stage) - 1);
  const comm::Counter counter = prepared.deals_shards ? comm::count_up({0, run.count}, run.count)
                                                      : comm::count_up(run, plan.logical_shards);
  // Elements of a bucket that a replica sums.
  const auto summed = [&](const plan::Bucket& bucket) {
    const std::int64_t divided = parameter_elems(bucket);
    return prepared.deals_shards ? bucket.num_elems - divided + own_part(plan, bucket, replica).size()
                                 : bucket.num_elems;
  };
  out.gradients = 4 * stages.written_elems;
  std::int64_t eval_scratch = 0;
  for (std::size_t s = 0; s < stages.segments.size(); ++s) {
    const StageSegment& own = stages.segments[s];
    const std::int32_t v = stages.virtual_stage_of(own.index);
    out.kept += most[v] * own.train->arena_bytes();
    out.scratch = std::max(out.scratch, own.train->scratch_bytes());
    for (const std::size_t b : own.buckets) {
      const plan::Bucket& bucket = plan.buckets[b];
      const std::int64_t written = prepared.deals_shards ? 0 : bucket.num_elems;
      out.gradients += 4 * (written + summed(bucket) * (bucket.is_coded() ? run.count : counter.num_vectors));
    }
    out.evaluation += own.eval->arena_bytes();
    eval_scratch = std::max(eval_scratch, own.eval->scratch_bytes());
    const bool begins = s == 0 || stages.virtual_stage_of(stages.segments[s - 1].index) != v;
    if (!begins) continue;
    std::int32_t last = own.index;
    for (const StageSegment& more : stages.segments)
      if (stages.virtual_stage_of(more.index) == v) last = more.index;
    out.kept += most[v] * bytes_between(stages.train, own.index, last);
  }
  out.evaluation += eval_scratch;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b)
    if (plan.buckets[b].segments.size() > 1)
      for (const std::int32_t g : plan.buckets[b].segments)
        out.gradients += 4 * summed(plan.buckets[b]) *
                         ((stages.find(g) == nullptr ? 1 : 0) + (g == plan.buckets[b].segments[0] ? 1 : 0));
  for (const parallel::Crossing& c : stages.eval)
    if (std::any_of(stages.segments.begin(), stages.segments.end(),
                    [&](const StageSegment& s) { return s.index >= c.from && s.index <= c.last; }))
      out.evaluation += static_cast<std::int64_t>(c.type.num_bytes());
  return out;
}

namespace {

// Whoever sends to another stage or receives from it copies.
void add_copies(const Prepared& prepared, const std::vector<double>& sent, const cost::Rates& rates,
                parallel::TimetableTimes& times) {
  const parallel::TimetableSpec& spec = prepared.stages->timetable;
  const StageExtras extras = stage_extras(prepared, 0, rates);
  for (std::size_t v = 0; v + 1 < times.phases.size(); ++v) {
    if (spec.stage_of(static_cast<std::int32_t>(v)) == spec.stage_of(static_cast<std::int32_t>(v + 1)))
      continue;
    const double copy = sent[v] * extras.copy_seconds;
    times.phases[v].forward += extras.message_seconds;
    times.phases[v + 1].forward += copy + extras.message_seconds;
    times.phases[v + 1].backward += extras.message_seconds;
    times.phases[v].backward += copy + extras.message_seconds;
  }
}

}  // namespace

parallel::TimetableTimes pipeline_times(const Prepared& prepared, const cost::Rates& rates) {
  const Stages& stages = *prepared.stages;
  const parallel::TimetableSpec& spec = stages.timetable;
  parallel::TimetableTimes times;
  times.phases.resize(static_cast<std::size_t>(spec.chain()));
  std::vector<double> sent(times.phases.size(), 0);
  const int threads = prepared.plan.shard_threads;
  for (std::size_t g = 0; g < stages.costs.size(); ++g) {
    const auto v = static_cast<std::size_t>(stages.virtual_stage_of(static_cast<std::int32_t>(g)));
    const SegmentCost& cost = stages.costs[g];
    const cost::OpCost(&phases)[kNumTrainPhases] = cost.phases;
    const auto seconds = [&](const cost::OpCost& of, int phase) {
      const auto p = static_cast<std::size_t>(phase);
      return rates.seconds(of, cost.work->phases[p], threads, cost.work->strands[p]).seconds;
    };
    const StageExtras extras = stage_extras(prepared, static_cast<std::int32_t>(g), rates);
    times.phases[v].forward += seconds(phases[kForwardPhase], kForwardPhase);
    if (stages.splits_weights) {
      times.phases[v].backward += seconds(phases[kBackwardPhase], kBackwardPhase);
      times.phases[v].weights += seconds(phases[kWeightsPhase], kWeightsPhase);
    } else {  // one program, of which each has its part
      cost::OpCost both = phases[kBackwardPhase];
      both += phases[kWeightsPhase];
      const auto plain = [&](int phase) {
        return to_seconds(cost::compute_time(phases[phase], rates.machine, threads));
      };
      const double all = seconds(both, kBackwardPhase), b = plain(kBackwardPhase), w = plain(kWeightsPhase);
      const double part = b + w > 0 ? b / (b + w) : 1;
      times.phases[v].backward += part * all;
      times.phases[v].weights += (1 - part) * all;
    }
    times.phases[v].weights += extras.add_seconds;
    sent[v] = cost.sent_bytes;  // the last one's
  }
  add_copies(prepared, sent, rates, times);
  sent.pop_back();
  for (const double bytes : sent) {
    const double seconds =
        to_seconds(cost::transfer_time(static_cast<std::uint64_t>(bytes), rates.comm.link));
    times.activations.push_back(seconds);
    times.gradients.push_back(seconds);
  }
  return times;
}

Result<parallel::PricedTimetable> price_step(const Stages& stages, const parallel::TimetableTimes& times) {
  return price_step(stages.timetable, stages.is_synchronous, times);
}

Result<parallel::PricedTimetable> price_pipeline(const Prepared& prepared, const cost::Rates& rates) {
  return price_step(*prepared.stages, pipeline_times(prepared, rates));
}

}  // namespace trireme::prepare
