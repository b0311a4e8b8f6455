#include "trireme/prepare/prepare.h"

#include <algorithm>

#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/job/eval_batch.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/kernel.h"
#include "trireme/lower/faster_graph.h"
#include "trireme/model/fine_tune.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"
#include "trireme/prepare/bucket_notices.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/factors.h"
#include "trireme/prepare/gradient_places.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/measured_algorithms.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/own_update.h"
#include "trireme/prepare/stage_weights.h"
#include "trireme/prepare/tiles.h"
#include "trireme/prepare/work.h"

namespace trireme::prepare {
namespace {

// The optimiser's step for the parameters of one bucket.
Result<graph::Graph> update_graph(const job::Job& job, const Prepared& prepared, const plan::Bucket& bucket,
                                  const std::vector<model::Parameter>& parameters) {
  model::OptimizerSpec spec = job::optimizer_spec(job, prepared.sending);
  std::vector<model::Parameter> own;
  for (const std::string& name : bucket.parameters) {
    const auto p =
        std::find_if(parameters.begin(), parameters.end(), [&](const auto& q) { return q.name == name; });
    if (p == parameters.end())
      return error(Code::kCorrupt, "[plan] bucket {} names parameter '{}', which the model does not have",
                   bucket.slot, name);
    own.push_back(*p);
    if (is_cut(prepared, name)) spec.pieces.push_back(name);
  }
  TR_ASSIGN_OR_RETURN(model::UpdateGraph update, model::build_update(spec, own));
  return std::move(update.graph);
}

// It is another rank's.
bool is_empty(const model::Parameter& p) { return p.type.shape.num_elems() == 0; }

// The first of the segments that read it.
std::int32_t home_of(const Prepared& p, const std::string& parameter) {
  for (const plan::Bucket& b : p.plan.buckets)
    if (std::find(b.parameters.begin(), b.parameters.end(), parameter) != b.parameters.end())
      return b.segments.front();
  return 0;
}

// The first tile counts the gradients of parameters that every tile has whole.
std::vector<model::Parameter> counted(const Prepared& p) {
  std::vector<model::Parameter> own = p.parameters;
  if (p.tile > 0) std::erase_if(own, [&](const model::Parameter& of) { return !p.wholes.contains(of.name); });
  std::erase_if(own, is_empty);
  return own;
}

// What is known about all gradients before the first weight changes.
Result<graph::Graph> finite_check_graph(const job::Job& job, const Prepared& prepared) {
  graph::Graph g;
  const double clip_norm = job.train.optimizer.clip_norm;
  const auto own = counted(prepared);
  if (clip_norm > 0 && prepared.stages != nullptr) {
    // By segment: who has which of them does not matter then.
    std::map<std::string, std::vector<model::Parameter>> of_segments;
    for (const model::Parameter& p : own)
      if (const std::int32_t home = home_of(prepared, p.name); prepared.stages->find(home) != nullptr)
        of_segments[fmt::format("squares:{}", home)].push_back(p);
    TR_ASSIGN_OR_RETURN(g, model::build_squares(of_segments));
  } else if (clip_norm > 0 && !own.empty()) {
    TR_ASSIGN_OR_RETURN(g, model::build_clip(own, clip_norm));
  }
  graph::Builder b(g);
  std::vector<graph::Value> grads;
  for (const model::Parameter& p : prepared.parameters) {
    if (is_empty(p)) continue;
    const auto fed = g.find_input("grad:" + p.name);
    grads.push_back(fed ? *fed : b.input("grad:" + p.name, p.type.dtype, p.type.shape));
  }
  b.output("finite", b.add_node(op::kAllFinite, grads));
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

Result<graph::Graph> scale_update_graph() {
  graph::Graph g;
  graph::Builder b(g);
  const graph::Value scale = b.variable(kLossScale, DType::kF32, {}),
                     good = b.variable(kGoodSteps, DType::kI64, {}),
                     finite = b.input("finite", DType::kBool, {});
  b.output("updated", b.add_node(op::kUpdateLossScale, {scale, good, finite}));
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

exec::CompileOptions kernel_options(const job::Job& job, const Prepared& p, bool fixed) {
  const plan::Plan& plan = p.plan;
  exec::CompileOptions options;
  options.width = plan.shard_threads;
  options.device = p.device;
  options.tf32 = job.train.precision == "tf32";
  if (fixed) {
    options.kernels = plan.kernels;
    options.strict_kernels = true;
  }
  return options;
}

// Backward must find every bucket of the step before applied: its memory is written again, and the
// optimiser's scalars are. So no gradient may be final, and no loss known, before all gates are passed.
bool gates_come_first(const exec::CompiledGraph& compiled, const Prepared& p) {
  const exec::Outline outline = compiled.outline();
  std::int32_t last_gate = -1, first = static_cast<std::int32_t>(outline.strands.size());
  for (const std::int32_t strand : outline.gate_before) last_gate = std::max(last_gate, strand);
  for (std::size_t n = 0; n < outline.notice_after.size(); ++n)
    if (static_cast<int>(n) == p.loss_notice || p.bucket_of_notice[n] >= 0)
      first = std::min(first, outline.notice_after[n]);
  return last_gate <= first;
}

// On a GPU: compiled with a cut per bucket, or in one piece where the order of the nodes has changed since.
Status compile_in_buckets(const graph::Graph& graph, exec::CompileOptions options, Prepared& out) {
  out.loss_notice = -1;
  options.notices = bucket_notices(graph, out.plan);
  TR_ASSIGN_OR_RETURN(out.train, exec::compile(graph, options));
  const auto same = [](const exec::Notice& a, const exec::Notice& b) {
    return a.output == b.output && a.variable == b.variable;
  };
  const std::vector<exec::Notice> kept = bucket_notices(out.train->graph(), out.plan);
  if (std::equal(kept.begin(), kept.end(), options.notices.begin(), same)) {
    for (std::size_t i = 0; i < out.plan.buckets.size(); ++i)
      out.bucket_of_notice.push_back(static_cast<int>(i));
    return {};
  }
  out.plan.overlap = plan::Overlap::kNone;
  options.notices.clear();
  TR_ASSIGN_OR_RETURN(out.train, exec::compile(graph, std::move(options)));
  return {};
}

// Gates of parameters that replicas divide, per bucket on the way forward and back, and notices that they
// have been read on the way forward.
void add_gather_gates(const plan::Plan& plan, exec::CompileOptions& options, Prepared& out) {
  using Readers = exec::VariableGate::Readers;
  for (const Readers way : {Readers::kUpTo, Readers::kBehind})
    for (const plan::Bucket& bucket : plan.buckets) options.gates.push_back({bucket.parameters, way, "loss"});
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    options.notices.push_back({.output = "", .variable = "", .after_gate = static_cast<int>(b)});
    out.bucket_of_notice.push_back(Prepared::kReadNotice);
  }
}

// What stands at the turn is not given back in between.
std::vector<WeightGather> gathers_of(const exec::Outline& outline, std::size_t num_buckets,
                                     std::size_t first_notice) {
  std::vector<std::pair<std::int32_t, WeightGather>> all;
  for (std::size_t gate = 0; gate < 2 * num_buckets; ++gate) {
    if (outline.gate_before[gate] < 0) continue;
    WeightGather g;
    g.bucket = gate % num_buckets;
    g.back = gate >= num_buckets;
    g.gates = {static_cast<int>(gate)};
    if (!g.back) g.read_notice = static_cast<int>(first_notice + g.bucket);
    all.emplace_back(outline.gate_before[gate], std::move(g));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second.back, a.first) < std::make_pair(b.second.back, b.first);
  });
  std::vector<WeightGather> out;
  for (auto& [strand, g] : all) {
    const bool stays = !out.empty() && g.back && !out.back().back && out.back().bucket == g.bucket;
    if (!stays) {
      out.push_back(std::move(g));
      continue;
    }
    out.back().gates.push_back(g.gates[0]);
    out.back().read_notice = -1;
  }
  return out;
}

// Where replicas divide gradients, and parameters perhaps.
Status compile_divided(const job::Job& job, const graph::Graph& graph, exec::CompileOptions options,
                       Prepared& out) {
  const plan::Plan& plan = out.plan;
  const std::size_t first_notice = options.notices.size();
  const bool gathers = plan.zero_level() == 3;
  if (gathers) add_gather_gates(plan, options, out);
  out.places = {};
  std::set<std::size_t> alone;
  for (bool again = true; again;) {
    if (can_take_turns(job, out)) out.places = place_gradients(plan.buckets, alone);
    exec::CompileOptions with = options;
    add_place_gates(plan, out.places, with);
    TR_ASSIGN_OR_RETURN(out.train, exec::compile(graph, std::move(with)));
    const std::set<std::size_t> stuck = stuck_places(out);
    alone.insert(stuck.begin(), stuck.end());
    again = !stuck.empty();
  }
  if (gathers) out.gathers = gathers_of(out.train->outline(), plan.buckets.size(), first_notice);
  return {};
}

Status compile_train(const job::Job& job, const graph::Graph& graph, bool fixed, Prepared& out) {
  const plan::Plan& plan = out.plan;
  exec::CompileOptions options = kernel_options(job, out, fixed);
  out.bucket_of_notice.clear();  // it may be compiled again
  const auto notify = [&](std::string output, std::string variable, int bucket) {
    options.bound.push_back(output);
    if (out.device != nullptr) return;  // as few strands as can be, each captured whole
    options.notices.push_back({std::move(output), std::move(variable)});
    out.bucket_of_notice.push_back(bucket);
  };
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const bool factors = plan.buckets[i].sends_factors();
    for (const std::string& p : plan.buckets[i].parameters) {
      if (factors) options.bound.push_back("factor:u:" + p);  // there before v is
      notify((factors ? "factor:v:" : "grad:") + p, p, static_cast<int>(i));
    }
    for (const std::string& s : plan.buckets[i].statistics) notify("stat:" + s, "", static_cast<int>(i));
  }
  out.loss_notice = static_cast<int>(options.notices.size());
  notify("loss", "", -1);
  notify("correct", "", -1);
  if (out.device != nullptr) out.loss_notice = -1;
  // The loss is looked at while backward runs.
  if (out.resident && plan.logical_shards == 1) options.notices = {{"loss", ""}, {"correct", ""}};
  if (out.device != nullptr && plan.overlap == plan::Overlap::kBuckets)
    return compile_in_buckets(graph, std::move(options), out);
  if (plan.overlap == plan::Overlap::kFull)
    for (const plan::Bucket& bucket : plan.buckets) options.gates.push_back({bucket.parameters});
  if (plan.zero_level() >= 2) return compile_divided(job, graph, std::move(options), out);
  TR_ASSIGN_OR_RETURN(out.train, exec::compile(graph, options));
  if (options.gates.empty() || gates_come_first(*out.train, out)) return {};
  out.plan.overlap = plan::Overlap::kBuckets;
  options.gates.clear();
  TR_ASSIGN_OR_RETURN(out.train, exec::compile(graph, std::move(options)));
  return {};
}

plan::StepCosts step_costs(const Prepared& p, int cores) {
  const exec::Outline outline = p.train->outline();
  plan::StepCosts costs;
  costs.strands = outline.strands;
  if (p.plan.zero_level() != 2) costs.needed_before = outline.gate_before;  // else those of places
  costs.needed_before.resize(p.plan.buckets.size(), 0);
  costs.final_after.assign(p.plan.buckets.size(), -1);
  std::int32_t first = static_cast<std::int32_t>(outline.strands.size()) - 1;
  for (std::size_t n = 0; n < p.bucket_of_notice.size(); ++n) {
    const int bucket = p.bucket_of_notice[n];
    if (bucket == Prepared::kReadNotice) continue;
    std::int32_t& last = bucket < 0 ? costs.loss_after : costs.final_after[static_cast<std::size_t>(bucket)];
    last = std::max(last, outline.notice_after[n]);
    first = std::min(first, outline.notice_after[n]);
  }
  if (p.loss_notice < 0) costs.loss_after = first;  // it is looked at with what comes first
  costs.updates_wait = p.finite_check != nullptr;
  for (const WeightGather& g : p.gathers) costs.gathers.push_back(g.bucket);
  for (const Compiled& update : p.updates) {
    costs.updates.push_back(update->cost());
    costs.update_work.push_back(work_of(*update));
  }
  for (std::int32_t s = 0; p.device == nullptr && s < p.train->num_strands(); ++s)
    costs.strand_work.push_back(cost::joined(p.train->strand_work(s)));
  const int at_once = std::max(1, cores / std::max(1, p.plan.shard_threads));
  if (servers_multiply(p.plan)) return costs;
  for (std::size_t i = 0; i < p.products.size(); ++i) costs.updates[i] += factor_cost(p, i, at_once);
  return costs;
}

Status compile_products(const job::Job& job, const FactoredTrain& factored, bool fixed, Prepared& out) {
  for (const std::vector<graph::Graph>& graphs : factored.products) {
    auto& products = out.products.emplace_back();
    for (const graph::Graph& g : graphs) {
      exec::CompileOptions options = kernel_options(job, out, fixed);
      options.bound = {"grad"};
      if (servers_multiply(out.plan) && out.device != nullptr) {  // servers multiply on the host
        options.device = nullptr;
        options.kernels.clear();
        options.strict_kernels = false;
      }
      TR_ASSIGN_OR_RETURN(Compiled product, exec::compile(g, std::move(options)));
      products.push_back(std::move(product));
    }
  }
  return {};
}

// The kernels of products, where the rule for their op is another one.
void name_product_kernels(const Prepared& p, std::map<std::string, std::string>& kernels) {
  for (const auto& products : p.products)
    for (const Compiled& product : products) {
      const graph::Graph& g = product->graph();
      const graph::Node& node = g.node(g.find_output("grad")->node);
      const std::string op = op::formed_name(*node.def, node.forms), chosen = product->kernels().at(op);
      if (kernels.emplace(op, chosen).first->second != chosen) kernels[op + ":" + node.name] = chosen;
    }
}

// What trains and judges a model that is whole on a rank, or cut over tiles.
Status compile_graphs(const job::Job& job, bool fixed, Prepared& out) {
  const plan::Plan& plan = out.plan;
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs shard, job::build_job_model(job, out.input, plan.shard_batch));
  TR_ASSIGN_OR_RETURN(const graph::Graph own, tile_of_train(job, shard.train, plan, out.tile));
  TR_ASSIGN_OR_RETURN(const FactoredTrain factored, factor_as_planned(own, plan));
  TR_ASSIGN_OR_RETURN(const graph::Graph train,
                      lower::faster_graph({job.train.precision, out.device.get()}, factored.graph));
  TR_RETURN_IF_ERROR(compile_train(job, train, fixed, out));
  TR_RETURN_IF_ERROR(compile_products(job, factored, fixed, out));
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs eval, job::build_job_model(job, out.input, out.eval_batch));
  exec::CompileOptions eval_options = kernel_options(job, out, fixed);
  eval_options.fetches = {"loss", "correct"};
  eval_options.kernels = without_algorithms(std::move(eval_options.kernels));
  TR_ASSIGN_OR_RETURN(const graph::Graph own_eval, tile_of_eval(job, eval.eval, plan, out.tile));
  TR_ASSIGN_OR_RETURN(const graph::Graph test,
                      lower::faster_graph({job.train.precision, out.device.get()}, own_eval));
  TR_ASSIGN_OR_RETURN(out.eval, exec::compile(test, std::move(eval_options)));
  return {};
}

Status compile_all(const job::Job& job, const PrepareOptions& options, bool fixed, Prepared& out) {
  const plan::Plan& plan = out.plan;
  if (plan.segments > 1)
    TR_RETURN_IF_ERROR(compile_stages(job, options, kernel_options(job, out, fixed), out));
  else
    TR_RETURN_IF_ERROR(compile_graphs(job, fixed, out));
  // What works on summed gradients is where they are.
  const bool on_host = out.device != nullptr && !out.resident;
  const auto compile = [&](const graph::Graph& g, Compiled& to) -> Status {
    exec::CompileOptions options = kernel_options(job, out, fixed);
    if (on_host) {
      options.device = nullptr;
      options.kernels.clear();
      options.strict_kernels = false;
    }
    TR_ASSIGN_OR_RETURN(to, exec::compile(g, std::move(options)));
    return {};
  };
  for (const plan::Bucket& bucket : plan.buckets) {
    out.updates.emplace_back();
    out.statistics_updates.emplace_back();
    if (bucket.num_elems == 0) continue;  // of another stage
    TR_ASSIGN_OR_RETURN(const graph::Graph g, update_graph(job, out, bucket, out.parameters));
    TR_RETURN_IF_ERROR(compile(g, out.updates.back()));
    if (bucket.statistics.empty()) continue;
    std::vector<model::Statistic> own;
    for (const model::Statistic& s : out.statistics)
      if (std::find(bucket.statistics.begin(), bucket.statistics.end(), s.name) != bucket.statistics.end())
        own.push_back(s);
    TR_ASSIGN_OR_RETURN(const graph::Graph after, model::statistics_update(own));
    TR_RETURN_IF_ERROR(compile(after, out.statistics_updates.back()));
  }
  if (job::waits_for_all(job)) {
    TR_ASSIGN_OR_RETURN(const graph::Graph g, finite_check_graph(job, out));
    TR_RETURN_IF_ERROR(compile(g, out.finite_check));
  }
  if (job.train.precision == "f16") {
    TR_ASSIGN_OR_RETURN(const graph::Graph g, scale_update_graph());
    TR_RETURN_IF_ERROR(compile(g, out.scale_update));
  }
  return {};
}

// Updates of other stages, for the names of their kernels: all ranks take these from rank 0's plan.
Result<std::vector<Compiled>> updates_elsewhere(const job::Job& job, const Prepared& p) {
  std::vector<Compiled> out;
  std::vector<model::Parameter> parameters = p.parameters;
  std::vector<model::Statistic> statistics = p.statistics;
  const auto make_whole = [&](auto& all) {
    for (auto& v : all)
      if (const auto whole = p.wholes.find(v.name); whole != p.wholes.end()) v.type = whole->second;
  };
  make_whole(parameters);
  make_whole(statistics);
  for (std::size_t b = 0; b < p.whole_buckets.size(); ++b) {
    if (p.updates[b] != nullptr) continue;
    const plan::Bucket& bucket = p.whole_buckets[b];
    TR_ASSIGN_OR_RETURN(const graph::Graph g, update_graph(job, p, bucket, parameters));
    TR_ASSIGN_OR_RETURN(out.emplace_back(), exec::compile(g, kernel_options(job, p, false)));
    if (bucket.statistics.empty()) continue;
    TR_ASSIGN_OR_RETURN(const graph::Graph after, model::statistics_update(statistics));
    TR_ASSIGN_OR_RETURN(out.emplace_back(), exec::compile(after, kernel_options(job, p, false)));
  }
  return out;
}

// As if all of the model were on one rank in one piece, or by the timetable of its stages.
Result<plan::StepPrediction> predict_all(const job::Job& job, const Prepared& p, const plan::StepCosts& costs,
                                         const PrepareOptions& options) {
  TR_ASSIGN_OR_RETURN(plan::StepPrediction prediction, predict_step(job, p.plan, costs, options));
  if (p.stages == nullptr) return prediction;
  TR_ASSIGN_OR_RETURN(const parallel::PricedTimetable priced, price_pipeline(p, rates_of(options)));
  prediction.compute_seconds = priced.price.makespan_seconds;
  prediction.bubble_fraction = priced.price.bubble_fraction;
  return prediction;
}

// Names that model.init_from gives: of all layers, or of those before model.cut_at; with what batch norm has
// beside the parameters.
Result<std::vector<std::string>> inherited_names(const job::Job& job, const model::ModelInput& input) {
  std::vector<std::string> names;
  if (job.model.init_from.empty()) return names;
  job::Job whole = job;  // frozen layers are inherited too
  whole.model.freeze.clear();
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs graphs, job::build_job_model(whole, input, 1));
  std::vector<model::Parameter> taken = graphs.parameters;
  if (!job.model.cut_at.empty()) {
    auto before = model::parameters_before(graphs, job.model.cut_at);
    if (!before.ok()) return before.status().with_prefix("[job] model.cut_at: ");
    taken = std::move(*before);
  }
  const auto layer_of = [](const std::string& name) { return name.substr(0, name.rfind('/') + 1); };
  for (const model::Parameter& p : taken) names.push_back(p.name);
  for (const model::Statistic& s : graphs.statistics)
    if (std::any_of(taken.begin(), taken.end(),
                    [&](const auto& p) { return layer_of(p.name) == layer_of(s.name); }))
      names.push_back(s.name);
  return names;
}

// Whether the model and its updates stay on GPUs, and at most gradients pass through the host: lock step,
// with gradients as they are or encoded there and steps of a batch each. It does not depend on the number of
// workers, nor do the bits.
bool can_stay_on_gpu(const job::Job& job, const Prepared& p) {
  const plan::Plan& plan = p.plan;
  const bool there =
      p.sending.is(job::Sending::Kind::kDense) || codes_on_gpu(job, p.sending, plan.buckets.front().sum);
  return plan.timetable == plan::Timetable::kLockStep && there &&
         job.train.optimizer.max_batch_multiplier == 1;
}

// A name that the model does not have is the user's mistake.
Status as_users_mistake(const Status& status) {
  return status.code() == Code::kNotFound ? Status(Code::kInvalid, status.message()) : status;
}

Status describe(const job::Job& job, const model::ModelInput& input, Prepared& out) {
  TR_ASSIGN_OR_RETURN(model::ModelGraphs probe, job::build_job_model(job, input, 1));
  out.input = input;
  out.parameters = std::move(probe.parameters);
  out.frozen = std::move(probe.frozen);
  out.statistics = std::move(probe.statistics);
  TR_ASSIGN_OR_RETURN(out.states, model::optimizer_states(job::optimizer_spec(job), out.parameters));
  TR_ASSIGN_OR_RETURN(out.inherited, inherited_names(job, input));
  out.eval_batch = job::eval_batch_of(job);
  return {};
}

Status check_zero(const Prepared& p) {
  if (p.plan.zero == 0) return {};
  for (const auto& [name, layout] : p.plan.layouts)
    for (const parallel::AxisLayout& axis : layout.axes)
      if (axis.blocks > 1 && axis.dim > 1)
        return error(Code::kInvalid,
                     "[job] parallel.zero = {}: '{}' is cut in blocks of dimension {} ({}), which cannot be "
                     "divided further; pin it with parallel.layouts",
                     p.plan.zero, name, axis.dim, layout.to_text());
  if (p.plan.zero_level() == 3 && p.plan.segments > 1 && p.plan.logical_shards % p.plan.workers() != 0)
    return error(
        Code::kInvalid,
        "[job] parallel.zero = 3: {} replicas cannot share the {} logical shards of this run evenly, "
        "and stages gather weights for every micro-batch; use a data axis that divides {}, or "
        "parallel.zero = 2",
        p.plan.workers(), p.plan.logical_shards, p.plan.logical_shards);
  if (p.device == nullptr) return {};
  return error(Code::kInvalid,
               "[job] parallel.zero = {}: on GPUs every replica has its own state; use --device cpu or "
               "parallel.zero = 0",
               p.plan.zero);
}

// A run that begins: how the model is cut, before buckets are made of its parts.
Status cut_first(const job::Job& job, const PrepareOptions& options, Prepared& out) {
  const cost::Rates rates = rates_of(options);
  TilingRequest request;
  request.tiles = options.tiles;
  request.shard_batch = shard_batch_of(job, options.replicas);
  request.eval_batch = out.eval_batch;
  request.costs = {rates.comm, rates.machine, shard_threads_of(job, options)};
  TR_ASSIGN_OR_RETURN(const Tiling tiling, choose_tiling(job, out.input, request));
  out.plan.owners = parallel::even_runs(options.replicas, options.replicas);
  put_tiling(tiling, options.replicas, out, out.plan);
  return take_tile(job, options.tile, out);
}

}  // namespace

plan::Plan Prepared::whole_plan() const {
  plan::Plan whole = plan;
  if (stages != nullptr) whole.buckets = whole_buckets;
  return whole;
}

Result<ParameterCosts> costs_by_parameter(const job::Job& asked, const PrepareOptions& options,
                                          const Prepared& prepared) {
  job::Job job = asked;
  job.parallel.bucket_bytes = 1;
  Prepared alone;
  alone.parameters = prepared.parameters;
  alone.statistics = prepared.statistics;
  TR_ASSIGN_OR_RETURN(alone.plan, fresh_plan(job, options, prepared, {}));
  alone.plan.overlap = plan::Overlap::kFull;
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs shard,
                      job::build_job_model(job, prepared.input, alone.plan.shard_batch));
  TR_ASSIGN_OR_RETURN(const graph::Graph own, tile_of_train(job, shard.train, alone.plan, prepared.tile));
  TR_ASSIGN_OR_RETURN(const graph::Graph train, lower::faster_graph({job.train.precision, nullptr}, own));
  TR_RETURN_IF_ERROR(compile_train(job, train, false, alone));
  for (const plan::Bucket& bucket : alone.plan.buckets) {
    TR_ASSIGN_OR_RETURN(const graph::Graph g, update_graph(job, alone, bucket, prepared.parameters));
    TR_ASSIGN_OR_RETURN(Compiled update, exec::compile(g, kernel_options(job, alone, false)));
    alone.updates.push_back(std::move(update));
  }
  return by_parameter(alone.plan, step_costs(alone, options.machine.cores));
}

Result<std::shared_ptr<const Prepared>> prepare(const job::Job& job, const model::ModelInput& input,
                                                const PrepareOptions& options) {
  using Kind = job::Sending::Kind;
  auto out = std::make_shared<Prepared>();
  const job::Sending asked = job::sending_of(job);
  TR_RETURN_IF_ERROR(as_users_mistake(describe(job, input, *out)));
  const bool fixed = options.fixed != nullptr;
  out->tile = options.tile;
  if (!fixed && options.tiles > 1) TR_RETURN_IF_ERROR(cut_first(job, options, *out));
  if (!fixed && job::segments_of(job) > 1)
    TR_RETURN_IF_ERROR(as_users_mistake(cut_depth(job, options, false, *out)));
  if (asked.is(Kind::kFactors)) TR_RETURN_IF_ERROR(job::can_send_factors(job));
  if (fixed) {
    out->plan = *options.fixed;
  } else if (asked.is(Kind::kAuto)) {
    TR_ASSIGN_OR_RETURN(const ParameterCosts costs, costs_by_parameter(job, options, *out));
    TR_ASSIGN_OR_RETURN(out->plan, cheapest_plan(job, options, *out, costs));
  } else {
    TR_ASSIGN_OR_RETURN(out->plan, fresh_plan(job, options, *out, asked));
  }
  plan::Plan& plan = out->plan;
  if (plan.tiles != options.tiles)
    return error(
        Code::kInvalid,
        "[plan] this run cuts the model over {} positions of the model axis, and parallel.mesh has {}; "
        "use a mesh with model={}, or a new run folder",
        plan.tiles, options.tiles, plan.tiles);
  if (fixed) TR_RETURN_IF_ERROR(take_tile(job, options.tile, *out));
  if (plan.segments == 1 && options.stages > 1)
    return error(
        Code::kInvalid,
        "[plan] this run does not cut the model into segments, and parallel.mesh has {} stages; use a "
        "mesh without a stage axis, or a new run folder",
        options.stages);
  if (fixed && plan.segments > 1) TR_RETURN_IF_ERROR(cut_depth(job, options, true, *out));
  out->sending = job::sending_of(job, plan.codec);
  if (plan.job_sha256 != job::job_sha256(job))
    return error(Code::kInvalid, "[plan] the plan belongs to another job; use a new run folder");
  if (options.replicas > plan.logical_shards)
    return error(Code::kInvalid,
                 "[plan] {} {} cannot share the {} logical shards of this run; use {} {} or fewer",
                 options.replicas, plan.tiles > 1 ? "replicas" : "workers", plan.logical_shards,
                 plan.tiles > 1 ? "a data axis of" : "--workers", plan.logical_shards);
  // Rank 0's order stands where it was made for this world: all ranks must use one.
  const bool ordered = fixed && plan.workers() == options.replicas && !plan.exchange_order.empty();
  plan.owners = parallel::even_runs(plan.logical_shards, options.replicas);
  if (!options.data_sha256.empty()) plan.data_sha256 = options.data_sha256;
  plan.transport = options.transport;
  out->device = options.device;
  out->resident = out->device != nullptr && can_stay_on_gpu(job, *out);
  const bool gpu_buckets = out->resident && options.replicas > 1 && plan.buckets.size() > 1;
  TR_ASSIGN_OR_RETURN(plan.overlap,
                      possible_overlap(job, options.replicas, out->device != nullptr, gpu_buckets));
  if (plan.segments > 1 && plan.overlap == plan::Overlap::kFull) plan.overlap = plan::Overlap::kBuckets;
  plan.zero = static_cast<std::int32_t>(job.options.integer(job::kZero));
  TR_RETURN_IF_ERROR(check_zero(*out));
  out->deals_shards = can_deal_shards(job, plan);
  // Layers wait for parameters that come when they are read, or the memory of gradients is used in turn.
  if (plan.zero_level() >= 2 && plan.overlap == plan::Overlap::kFull) plan.overlap = plan::Overlap::kBuckets;
  const Status shares = job::can_share_weights(job, out->sending, options.transport, options.replicas);
  if (job.parallel.weights == "shared") TR_RETURN_IF_ERROR(shares);
  plan.shared_weights = shares.ok() && job.parallel.weights != "own" && out->device == nullptr &&
                        !options.several_ranks && plan.segments == 1;
  if (plan.segments > 1) TR_RETURN_IF_ERROR(take_stage(job, options.stage, *out));
  const bool named = fixed && !plan.kernels.empty();  // a plan made while the run goes on may have none yet
  TR_RETURN_IF_ERROR(compile_all(job, options, named, *out));
  if (out->stages == nullptr)
    TR_RETURN_IF_ERROR(keep_below_limit(job, options.compute_threads, *out, [&](const graph::Graph& less) {
      return compile_train(job, less, named, *out);
    }));
  else
    TR_RETURN_IF_ERROR(keep_stage_below_limit(
        job, options.compute_threads, *out, [&](std::size_t segment, std::int64_t bytes) {
          return keep_less(kernel_options(job, *out, named), segment, bytes, *out);
        }));
  const bool in_segments = out->stages != nullptr;
  plan::StepCosts costs = in_segments ? segment_costs(*out) : step_costs(*out, options.machine.cores);
  if (in_segments && plan.zero_level() == 3) {
    TR_ASSIGN_OR_RETURN(const WeightUses uses, uses_of_step(*out));
    costs.gathers = gathers_of(uses);
  }
  const plan::StepShape shape = plan::step_shape(plan, costs, options.machine, options.link);
  if (plan.overlap != plan::Overlap::kFull)
    plan.exchange_order.clear();
  else if (!ordered)
    plan.exchange_order = plan::exchange_order(shape);
  TR_ASSIGN_OR_RETURN(plan.prediction, predict_all(job, *out, costs, options));
  TR_ASSIGN_OR_RETURN(const plan::Replicas replicas, replicas_of(job, plan, options));
  out->parts = in_segments ? segment_parts(*out) : plan::cut_strands(costs);
  out->traffic = replicas.traffic;
  TR_RETURN_IF_ERROR(plan::prove_steps(plan, plan.cell_owners(), out->parts, out->traffic));
  if (named) return std::shared_ptr<const Prepared>(out);
  plan.kernels = in_segments ? out->stages->kernels : out->train->kernels();
  std::vector<Compiled> others = {out->eval};
  if (out->device == nullptr || out->resident) {
    for (const auto* list : {&out->updates, &out->statistics_updates})
      others.insert(others.end(), list->begin(), list->end());
    for (const Compiled& more : {out->finite_check, out->scale_update}) others.push_back(more);
  }
  if (in_segments) {
    TR_ASSIGN_OR_RETURN(const std::vector<Compiled> more, updates_elsewhere(job, *out));
    others.insert(others.end(), more.begin(), more.end());
  }
  std::erase(others, nullptr);
  for (const Compiled& more : others)
    for (const auto& [op, kernel] : more->kernels()) plan.kernels.emplace(op, kernel);
  name_product_kernels(*out, plan.kernels);
  return std::shared_ptr<const Prepared>(out);
}

}  // namespace trireme::prepare
