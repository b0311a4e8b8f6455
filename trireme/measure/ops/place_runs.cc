#include "trireme/measure/ops/place_runs.h"

#include <algorithm>
#include <cstring>

#include "trireme/measure/ops/synthetic.h"
#include "trireme/op/ops.h"
#include "trireme/prepare/stages.h"

namespace trireme::measure {
namespace {

using prepare::Compiled;
using runtime::Task;

// What a collective or a message leaves is of the size of what it takes.
class CopyOp final : public exec::HostOp {
 public:
  Task<Status> start(exec::HostCall call) override {
    for (std::size_t i = 0; i < call.outputs.size() && !call.inputs.empty(); ++i) {
      const Tensor &from = call.inputs[std::min(i, call.inputs.size() - 1)], &to = call.outputs[i];
      const std::size_t there = to.type().num_bytes(), here = from.type().num_bytes();
      for (std::size_t at = 0; at < there && here > 0; at += here)
        std::memmove(to.raw() + at, from.raw(), std::min(here, there - at));
    }
    co_return Status();
  }
};

// A run of a graph, or of a phase of it.
struct Turn {
  Compiled graph;
  int phase = -1;
  int copies = 1;  // Executions that take turns
};

std::vector<Turn> training_turns(const prepare::Prepared& p) {
  std::vector<Turn> turns;
  if (p.stages != nullptr) {
    constexpr int kCopies = 2;
    const auto& segments = p.stages->segments;
    for (const prepare::StageSegment& s : segments)
      turns.push_back({s.train, prepare::kForwardPhase, kCopies});
    for (auto s = segments.rbegin(); s != segments.rend(); ++s)
      for (const int phase : {prepare::kBackwardPhase, prepare::kWeightsPhase})
        turns.push_back({s->train, phase, kCopies});
  } else {
    turns.push_back({p.train});
  }
  for (const auto& products : p.products)
    for (const Compiled& product : products) turns.push_back({product});
  turns.push_back({p.finite_check});
  for (const auto* list : {&p.updates, &p.statistics_updates})
    for (const Compiled& update : *list) turns.push_back({update});
  turns.push_back({p.scale_update});
  return turns;
}

std::vector<Turn> evaluation_turns(const prepare::Prepared& p) {
  if (p.stages == nullptr) return {{p.eval}};
  std::vector<Turn> turns;
  for (const prepare::StageSegment& s : p.stages->segments) turns.push_back({s.eval});
  return turns;
}

std::vector<Turn> turns_of(const prepare::Prepared& p, GraphsOf which) {
  std::vector<Turn> turns = which == GraphsOf::kTraining ? training_turns(p) : evaluation_turns(p);
  std::erase_if(turns, [](const Turn& t) { return t.graph == nullptr; });
  return turns;
}

class Runs final : public PlaceRuns {
 public:
  Runs(runtime::Runtime& rt, const prepare::Prepared& prepared, GraphsOf which)
      : rt_(rt), prepared_(prepared), turns_(turns_of(prepared, which)) {}

  Status make() {
    std::int64_t scratch = 1;
    for (const Turn& t : turns_) scratch = std::max(scratch, t.graph->scratch_bytes());
    TR_ASSIGN_OR_RETURN(scratch_, cpu_device().allocate(static_cast<std::size_t>(scratch)));
    for (const Turn& t : turns_) {
      Graph& own = graphs_[t.graph.get()];
      if (!own.executions.empty()) continue;
      TR_RETURN_IF_ERROR(describe(*t.graph, own));
      for (int copy = 0; copy < t.copies; ++copy) {
        TR_ASSIGN_OR_RETURN(auto execution, make_execution(t.graph));
        own.executions.push_back(std::move(execution));
        own.before.emplace_back();
      }
    }
    return {};
  }

  Task<Result<std::map<std::string, double>>> run() override {
    samples_.clear();
    between_ = {};
    for (const Turn& t : turns_) {
      Graph& own = graphs_[t.graph.get()];
      const std::size_t copy = passes_ % own.executions.size();
      exec::Execution& execution = *own.executions[copy];
      for (int gate = 0; gate < own.num_gates; ++gate) execution.open(gate);
      exec::RunOptions how;
      how.number = runs_++;
      how.phase = t.phase;
      TR_CO_RETURN_IF_ERROR(co_await execution.run(how));
      TR_CO_ASSIGN_OR_RETURN(exec::Profile now, execution.profile());
      count(own, t.phase, own.before[copy], now);
      own.before[copy] = std::move(now);
    }
    ++passes_;
    std::map<std::string, double> seconds;
    for (const auto& [key, sum] : samples_) seconds[key] = sum.seconds / sum.calls;
    if (between_.calls > 0)
      seconds[cost::strand_key(prepared_.plan.shard_threads)] =
          std::max(0.0, between_.seconds / between_.calls);
    co_return seconds;
  }

 private:
  struct Sum {
    double seconds = 0;
    int calls = 0;
  };
  struct Graph {
    std::vector<std::unique_ptr<exec::Execution>> executions;
    std::vector<exec::Profile> before;        // of each, at the end of its last run
    std::map<std::string, std::string> keys;  // by the node's name
    std::map<int, int> strands;               // by phase
    int num_gates = 0;
  };

  Status describe(const exec::CompiledGraph& compiled, Graph& own) {
    const exec::Outline outline = compiled.outline();
    own.num_gates = static_cast<int>(outline.gate_before.size());
    for (std::int32_t s = 0; s < compiled.num_strands(); ++s) {
      const cost::Work work = compiled.strand_work(s);
      for (const cost::NodeWork& node : work) own.keys[node.node] = node.key;
      if (work.empty()) continue;
      ++own.strands[outline.phase_of.empty() ? -1 : outline.phase_of[static_cast<std::size_t>(s)]];
    }
    const graph::Graph& g = compiled.graph();
    for (const auto& [name, v] : g.variables()) {
      const std::string known = fmt::format("{} {}", name, g.type(v).to_string());
      if (tensors_.contains(known)) continue;
      TR_ASSIGN_OR_RETURN(tensors_[known], synthetic_variable(name, g.type(v), prepared_));
    }
    return {};
  }

  Result<std::unique_ptr<exec::Execution>> make_execution(const Compiled& compiled) {
    const graph::Graph& g = compiled->graph();
    exec::ExecutionOptions options;
    exec::Variables& variables = *variables_.emplace_back(std::make_unique<exec::Variables>());
    for (const auto& [name, v] : g.variables())
      TR_RETURN_IF_ERROR(variables.add(name, tensors_.at(fmt::format("{} {}", name, g.type(v).to_string()))));
    options.variables = &variables;
    options.profile = true;
    if (compiled->num_phases() > 1) options.scratch = scratch_;
    for (const auto& [name, type] : compiled->bound_outputs()) {
      TR_ASSIGN_OR_RETURN(options.bindings[name], synthetic_input("grad:", type, prepared_));
    }
    for (std::int32_t i = 0; i < g.size(); ++i)
      if (g.node(i).def->has(op::kHostOp)) options.host_ops[std::string(g.node(i).def->name)] = &copy_;
    TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt_, compiled, std::move(options)));
    for (std::int32_t i = 0; i < g.size(); ++i) {
      if (g.node(i).def != &op::kInput) continue;
      const std::string& name = g.node(i).attrs.get_text("name");
      TR_ASSIGN_OR_RETURN(Tensor value, synthetic_input(name, g.type({i, 0}), prepared_));
      TR_RETURN_IF_ERROR(execution->feed(name, std::move(value)));
    }
    return execution;
  }

  void count(const Graph& own, int phase, const exec::Profile& before, const exec::Profile& now) {
    double nodes = 0;
    for (std::size_t i = 0; i < now.nodes.size(); ++i) {
      const exec::NodeProfile& node = now.nodes[i];
      const bool known = i < before.nodes.size();
      const double seconds = to_seconds(node.total_ns - (known ? before.nodes[i].total_ns : 0));
      const auto calls = static_cast<int>(node.calls - (known ? before.nodes[i].calls : 0));
      nodes += seconds;
      const auto key = own.keys.find(node.name);
      if (calls == 0 || key == own.keys.end()) continue;
      Sum& sum = samples_[key->second];
      sum.seconds += seconds;
      sum.calls += calls;
    }
    const auto strands = own.strands.find(phase);
    if (strands == own.strands.end()) return;
    between_.seconds += to_seconds(now.run_ns - before.run_ns) - nodes;
    between_.calls += strands->second;
  }

  runtime::Runtime& rt_;
  const prepare::Prepared& prepared_;
  const std::vector<Turn> turns_;
  CopyOp copy_;
  Buffer scratch_;
  std::map<std::string, Tensor> tensors_;  // variables, by name and type
  std::vector<std::unique_ptr<exec::Variables>> variables_;
  std::map<const exec::CompiledGraph*, Graph> graphs_;
  std::map<std::string, Sum> samples_;  // of a pass
  Sum between_;                         // strands of a pass
  std::uint64_t runs_ = 0;
  std::size_t passes_ = 0;
};

}  // namespace

std::map<std::string, cost::NodeWork> nodes_of(const prepare::Prepared& prepared, GraphsOf which) {
  std::map<std::string, cost::NodeWork> nodes;
  for (const Turn& t : turns_of(prepared, which))
    for (const cost::NodeWork& node : prepare::work_of(*t.graph)) nodes.try_emplace(node.key, node);
  return nodes;
}

Result<std::unique_ptr<PlaceRuns>> make_place_runs(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                                   GraphsOf which) {
  auto runs = std::make_unique<Runs>(rt, prepared, which);
  TR_RETURN_IF_ERROR(runs->make());
  return std::unique_ptr<PlaceRuns>(std::move(runs));
}

}  // namespace trireme::measure
