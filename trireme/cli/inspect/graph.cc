// `trireme inspect graph [JOB|NAME]`: a job's graph as text, JSON or Graphviz input, as built, after passes,
// or as compiled.
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/exec/executor.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/serialize.h"
#include "trireme/job/job_parts.h"

namespace trireme::cli {
namespace {

struct GraphArgs {
  InspectSource model;
  bool train = false, eval = false, update = false;
  bool json = false, dot = false, compiled = false, list_passes = false;
  std::string passes;
  int threads = 0;
};

Result<graph::Graph> pick_graph(const GraphArgs& args, const InspectedModel& m) {
  if (m.job.train.batch < 1)
    return error(Code::kInvalid, "[inspect] train.batch: got {}, expected at least 1", m.job.train.batch);
  TR_ASSIGN_OR_RETURN(model::ModelGraphs graphs,
                      job::build_job_model(m.job, m.input.input, m.job.train.batch));
  if (args.eval) return std::move(graphs.eval);
  if (!args.update) return std::move(graphs.train);
  TR_ASSIGN_OR_RETURN(model::UpdateGraph update,
                      model::build_update(job::optimizer_spec(m.job), graphs.parameters));
  return std::move(update.graph);
}

Result<graph::Graph> run_passes(graph::Graph g, const std::string& names, const job::Job& job) {
  std::vector<std::string_view> known;
  for (const graph::PassRow& row : graph::pass_table()) known.push_back(row.name);
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    const std::string name = names.substr(at, end - at);
    at = end + 1;
    const graph::PassRow* pass = graph::find_pass(name);
    const std::string near = did_you_mean(name, known);
    if (pass == nullptr)
      return error(Code::kInvalid, "[inspect] no pass is called '{}'{} --list-passes lists all", name,
                   near.empty() ? ";" : near);
    graph::PassOptions options;
    if (job.train.precision == "f16") options.dtype = DType::kF16;
    Result<graph::Graph> next = pass->run(g, options);
    if (!next.ok()) return next.status().with_prefix(fmt::format("[inspect] pass {}: ", name));
    g = std::move(*next);
  }
  return g;
}

void print_passes(bool json) {
  Json rows = Json::array();
  for (const graph::PassRow& row : graph::pass_table())
    rows.push_back(
        {{"name", row.name}, {"exact", row.exactness == graph::Exactness::kExact}, {"doc", row.doc}});
  if (json) return print_text(rows.dump(2) + "\n");
  print_rows(rows);
}

Result<std::string> shown(const GraphArgs& args, const graph::Graph& g, int threads) {
  if (args.dot) return g.to_dot();
  if (args.json) {
    TR_ASSIGN_OR_RETURN(std::string text, graph::to_json(g));
    return text + "\n";
  }
  if (!args.compiled) return g.to_text();
  exec::CompileOptions options;
  options.width = threads;
  TR_ASSIGN_OR_RETURN(const auto compiled, exec::compile(g, options));
  return compiled->to_text() + compiled->memory().to_text();
}

Status run(const GraphArgs& args) {
  if (args.list_passes) {
    print_passes(args.json);
    return {};
  }
  TR_ASSIGN_OR_RETURN(const InspectedModel m, load_inspected(args.model));
  TR_ASSIGN_OR_RETURN(graph::Graph g, pick_graph(args, m));
  TR_ASSIGN_OR_RETURN(g, run_passes(std::move(g), args.passes, m.job));
  TR_ASSIGN_OR_RETURN(const std::string text,
                      shown(args, g, args.threads > 0 ? args.threads : m.compute_threads));
  print_text(text);
  return {};
}

}  // namespace

std::function<int()> add_inspect_graph(Options& inspect) {
  auto args = std::make_shared<GraphArgs>();
  Options* sub =
      inspect.add_subcommand("graph", "Show the graph of a model: training, evaluation or update.");
  add_inspect_source(*sub, args->model);
  Option* train = sub->add_flag("--train", args->train, "Show the training graph (default)");
  Option* eval = sub->add_flag("--eval", args->eval, "Show the evaluation graph")->excludes(train);
  sub->add_flag("--update", args->update, "Show the optimizer's step")->excludes(train)->excludes(eval);
  sub->add_option("--passes", args->passes, "Run these passes first, in this order, such as cse,fold");
  sub->add_flag("--list-passes", args->list_passes, "List the passes instead");
  Option* json = sub->add_flag("--json", args->json, "As JSON (docs/format_graph.md)");
  Option* dot = sub->add_flag("--dot", args->dot, "As input for Graphviz")->excludes(json);
  Option* compiled =
      sub->add_flag("--compiled", args->compiled, "Show strands, kernels and memory offsets, as compiled");
  compiled->excludes(json)->excludes(dot);
  sub->add_option("--threads", args->threads,
                  "Kernel threads, for --compiled. Default: the cores of this host")
      ->check(integer_in(1, 1024))
      ->needs(compiled);
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
