// `trireme inspect model [JOB|NAME]`: layers, parameters, work, depth and memory of a model.
#include "trireme/base/units.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/memory_estimate.h"

namespace trireme::cli {
namespace {

struct InspectModelArgs {
  InspectSource model;
  int levels = 1, threads = 0;
  std::string memory, mesh, style;  // mesh, style: empty: as the job says
  bool json = false;
};

struct Findings {
  InspectedModel model;
  prepare::ModelReport report;
  prepare::MemoryEstimate memory;
  std::vector<std::int64_t> workers;                  // bytes of each, where a mesh cuts the model
  std::int64_t memory_bytes = 0, largest_batch = -1;  // -1: not asked for
};

Status apply(const InspectModelArgs& args, job::Job& job) {
  take_mesh(args.mesh, job);
  if (!args.style.empty()) job.options.set(job::kStyle.name, args.style);
  if (args.mesh.empty() && args.style.empty()) return {};
  job::Job checked = job;
  if (checked.data.path.empty()) checked.data.path = ".";  // the memory is known without the data
  return job::check_job(checked);
}

Result<Findings> find_out(const InspectModelArgs& args) {
  Findings f;
  TR_ASSIGN_OR_RETURN(f.model,
                      load_inspected(args.model, [&args](job::Job& job) { return apply(args, job); }));
  const job::Job& job = f.model.job;
  const model::ModelInput& input = f.model.input.input;
  const int workers = static_cast<int>(std::clamp<std::int64_t>(job.parallel.workers, 1, 1 << 16));
  const int threads = args.threads > 0 ? args.threads : std::max(1, f.model.compute_threads / workers);
  TR_ASSIGN_OR_RETURN(f.memory, prepare::estimate_memory(job, input, threads));
  if (job::tiles_of(job) > 1 || job::stages_of(job) > 1) {
    TR_ASSIGN_OR_RETURN(f.workers, prepare::estimate_workers(job, input, threads));
  }
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs graphs,
                      job::build_job_model(job, input, f.memory.shard_batch));
  TR_ASSIGN_OR_RETURN(f.report, prepare::report_model(graphs, f.memory.shard_batch, args.levels));
  if (args.memory.empty()) return f;
  const Result<std::uint64_t> bytes = parse_bytes(args.memory);
  if (!bytes.ok() || *bytes == 0 || *bytes > std::uint64_t{1} << 60)
    return error(Code::kInvalid, "[inspect] --memory: got '{}', expected a size like 8GiB", args.memory);
  f.memory_bytes = static_cast<std::int64_t>(*bytes);
  TR_ASSIGN_OR_RETURN(f.largest_batch, prepare::largest_batch(job, input, threads, f.memory_bytes));
  return f;
}

// ---- JSON
Json cost_json(const cost::OpCost& c) { return {{"flops", c.flops}, {"bytes", c.bytes}, {"work", c.work}}; }

Json layer_json(const prepare::LayerReport& l, double all_flops) {
  return {{"name", l.name},
          {"output", l.output.to_string()},
          {"parameters", l.parameters},
          {"forward", cost_json(l.forward)},
          {"backward", cost_json(l.backward)},
          {"share_of_flops", all_flops > 0 ? (l.forward.flops + l.backward.flops) / all_flops : 0},
          {"weights_bytes", l.weights_bytes},
          {"activations_bytes", l.activations_bytes},
          {"weight_grads_bytes", l.weight_grads_bytes},
          {"activation_grads_bytes", l.activation_grads_bytes}};
}

Json memory_json(const Findings& f) {
  Json parts = Json::array();
  for (const prepare::MemoryPart& p : f.memory.parts)
    parts.push_back({{"name", p.name}, {"bytes", p.bytes}, {"doc", p.doc}});
  Json memory{{"total_bytes", f.memory.total_bytes()},
              {"shards", f.memory.shards},
              {"shard_batch", f.memory.shard_batch},
              {"shard_threads", f.memory.shard_threads},
              {"parts", parts}};
  if (!f.workers.empty()) memory["predicted_bytes_per_rank"] = f.workers;
  if (f.largest_batch >= 0)
    memory.update({{"limit_bytes", f.memory_bytes}, {"largest_batch", f.largest_batch}});
  return memory;
}

Json to_json(const Findings& f) {
  const prepare::ModelReport& r = f.report;
  Json layers = Json::array(), shares = Json::object();
  for (const prepare::LayerReport& l : r.layers) layers.push_back(layer_json(l, r.flops()));
  for (const prepare::WorkShare& s : r.shares)
    shares[std::string(s.kind)] = r.flops() > 0 ? s.flops / r.flops() : 0;
  const auto samples = static_cast<double>(r.batch);
  Json json = headline_json(f.model);
  json.update({{"parameters", r.parameters},
               {"frozen_parameters", r.frozen},
               {"statistics", r.statistics},
               {"forward_flops_per_sample", r.forward.flops / samples},
               {"flops_per_sample", r.flops_per_sample()},
               {"work", r.work()},
               {"depth", r.path.depth},
               {"average_parallelism", r.parallelism()},
               {"path_ops", r.path.ops},
               {"path_flops", r.path.flops},
               {"shares", shares},
               {"layers", layers},
               {"memory", memory_json(f)}});
  return json;
}

// ---- Text
std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

// 1234567 -> "1,234,567"
std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string layers_text(const prepare::ModelReport& r) {
  std::size_t wide = 5, wide_output = 6;
  for (const prepare::LayerReport& l : r.layers) {
    wide = std::max(wide, l.name.size());
    wide_output = std::max(wide_output, l.output.to_string().size());
  }
  std::string text =
      fmt::format("{:<{}}  {:<{}} {:>13} {:>10} {:>10} {:>10} {:>7}\n", "layer", wide, "output", wide_output,
                  "parameters", "forward", "backward", "memory", "work");
  const auto samples = static_cast<double>(r.batch);
  for (const prepare::LayerReport& l : r.layers)
    text += fmt::format("{:<{}}  {:<{}} {:>13} {:>10} {:>10} {:>10} {:>5.1f} %\n", l.name, wide,
                        l.output.to_string(), wide_output, grouped(l.parameters),
                        format_count(l.forward.flops / samples), format_count(l.backward.flops / samples),
                        bytes_text(l.bytes()), percent(l.forward.flops + l.backward.flops, r.flops()));
  return text +
         "  forward, backward: flops per sample; memory: weights, activations and the gradients of both, "
         "before places are shared\n";
}

std::string totals_text(const prepare::ModelReport& r) {
  std::string text = fmt::format("\nparameters  {}", grouped(r.parameters));
  if (r.frozen > 0) text += fmt::format(", and {} frozen", grouped(r.frozen));
  if (r.statistics > 0) text += fmt::format(", and {} running statistics", grouped(r.statistics));
  text += fmt::format("\nwork        {} flops per sample of a training step, {} of them forward\n",
                      format_count(r.flops_per_sample()),
                      format_count(r.forward.flops / static_cast<double>(r.batch)));
  text += fmt::format(
      "W, D        {} operations of a step, {} of them one after the other; W/D = {} average parallelism\n",
      format_count(r.work()), format_count(r.path.depth), format_count(r.parallelism()));
  text +=
      fmt::format("path        {} ops one after the other; {:.1f} % of all flops are on the heaviest path\n",
                  r.path.ops, percent(r.path.flops, r.flops()));
  text += "shares      ";
  std::string shares;
  for (const prepare::WorkShare& s : r.shares)
    if (s.flops > 0)
      shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", s.kind, percent(s.flops, r.flops()));
  return text + shares + "\n";
}

// "4.6 MiB (data 0, model 0), ..."; the first of many.
std::string workers_text(const Findings& f) {
  constexpr std::size_t kMost = 16;
  const parallel::Mesh mesh = job::roles_of(f.model.job).mesh;
  std::string text;
  for (std::size_t w = 0; w < f.workers.size() && w < kMost; ++w)
    text += fmt::format("  {:<24} {:>11}\n", mesh.rank_text(static_cast<int>(w)), bytes_text(f.workers[w]));
  if (f.workers.size() > kMost)
    text += fmt::format("  {} more, at most {}\n", f.workers.size() - kMost,
                        bytes_text(*std::max_element(f.workers.begin(), f.workers.end())));
  return "\nmemory of every worker\n" + text;
}

std::string memory_text(const Findings& f) {
  std::string text = fmt::format("\nmemory of a worker: {} shard{} of {} samples\n", f.memory.shards,
                                 f.memory.shards == 1 ? "" : "s", f.memory.shard_batch);
  for (const prepare::MemoryPart& p : f.memory.parts)
    if (p.bytes > 0) text += fmt::format("  {:<12} {:>11}  {}\n", p.name, bytes_text(p.bytes), p.doc);
  text += fmt::format("  {:<12} {:>11}  and the samples themselves\n", "total",
                      bytes_text(f.memory.total_bytes()));
  if (!f.workers.empty()) text += workers_text(f);
  if (f.largest_batch == 0)
    text += fmt::format("In {} not even one sample per shard fits.\n", bytes_text(f.memory_bytes));
  if (f.largest_batch > 0)
    text += fmt::format("In {} the largest batch is {}.\n", bytes_text(f.memory_bytes), f.largest_batch);
  return text;
}

Status run(const InspectModelArgs& args) {
  TR_ASSIGN_OR_RETURN(const Findings f, find_out(args));
  if (args.json) {
    print_text(to_json(f).dump(2) + "\n");
    return {};
  }
  print_text(headline(f.model) + "\n" + layers_text(f.report) + totals_text(f.report) + memory_text(f));
  return {};
}

}  // namespace

std::function<int()> add_inspect_model(Options& inspect) {
  auto args = std::make_shared<InspectModelArgs>();
  Options* sub = inspect.add_subcommand(
      "model", "Show a model layer by layer: parameters, work, depth, memory per worker.");
  add_inspect_source(*sub, args->model);
  sub->add_option("--levels", args->levels,
                  "Number of parts of layer names by which rows are grouped; 0: all")
      ->check(integer_in(0, 64));
  sub->add_option("--memory", args->memory,
                  "Find the largest batch that fits into this memory per worker, such as 8GiB");
  sub->add_option("--mesh", args->mesh, "Mesh of the workers, such as data=2,model=4 (parallel.mesh)");
  sub->add_option("--style", args->style, "How the mesh cuts the model (parallel.style)");
  sub->add_option("--threads", args->threads,
                  "Kernel threads per worker. Default: the cores of this host divided by the workers")
      ->check(integer_in(1, 1024));
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
