// `trireme simulate`: a job on the virtual cluster; its subcommands are in simulate_collective.cc.
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/cli/cluster_file.h"
#include "trireme/cli/command.h"
#include "trireme/cli/faults.h"
#include "trireme/cli/final_table.h"
#include "trireme/cli/job_source.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/predict_model.h"
#include "trireme/cli/simulate_collective.h"
#include "trireme/cli/slow.h"
#include "trireme/cli/terminal.h"
#include "trireme/collective/schedule.h"
#include "trireme/cost/routes.h"
#include "trireme/job/roles.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/load_data.h"
#include "trireme/start/simulate.h"

namespace trireme::cli {
namespace {

using runtime::Task;

constexpr std::uint64_t kDefaultSeed = 1;
constexpr int kCores = 2;
constexpr double kGflopsPerCore = 50, kLatencyUs = 25, kGbit = 10;

struct SimulateArgs {
  JobSource job;
  int ranks = 0;  // 0: those of the mesh, or 4
  int ranks_per_machine = 1;
  std::string mesh;
  std::int64_t steps = 1;
  std::int64_t batch_per_rank = 32;
  std::string compute = "phantom";
  std::vector<std::string> algorithms;  // empty: that of the job, or ring and fixed-tree
  double latency_us = -1, bandwidth_gbit = 0, gflops_per_core = 0;  // not given
  int cores = 0;
  std::uint64_t seed = kDefaultSeed;
  double jitter = 0;
  ClusterArgs cluster;
  std::vector<std::string> slow_texts;
  bool json = false;
};

// Phantom runs have sizes of their own: a key that would be overwritten is refused.
Status check_sets(const SimulateArgs& args) {
  if (args.compute != "phantom") return {};
  for (const std::string& set : args.job.sets)
    for (const auto& [key, option] :
         {std::pair("train.steps=", "--steps"), {"train.batch=", "--batch-per-rank"}})
      if (set.starts_with(key))
        return error(Code::kInvalid,
                     "[simulate] --set {}: a phantom run has it from {}; use that, or --compute real", set,
                     option);
  return {};
}

// A topology or cluster says what links there are, which may differ from each other.
Status check_links(const SimulateArgs& args) {
  for (const auto& [name, given] :
       {std::pair("--gbit", args.bandwidth_gbit > 0), {"--latency-us", args.latency_us >= 0}})
    if (given && args.cluster.given())
      return error(
          Code::kInvalid,
          "[simulate] {} beside --topology, --link or --cluster, which say what links there are; leave it "
          "out, or take a --cluster file with other links",
          name);
  return {};
}

Task<void> load(runtime::Runtime& rt, const SimulateArgs& args, job::Job& job,
                std::shared_ptr<const data::Dataset>& data, Status& status) {
  status = check_sets(args);
  if (status.ok()) status = check_links(args);
  if (!status.ok()) co_return;
  Result<job::Job> loaded = co_await load_job(rt, args.job);
  status = loaded.status();
  if (!status.ok()) co_return;
  job = std::move(*loaded);
  if (!args.mesh.empty()) job.parallel.mesh = args.mesh;
  job.parallel.workers = args.ranks > 0 ? args.ranks : 4;
  job.given_at.erase("parallel.workers");
  job::take_workers_of_mesh(job, args.ranks > 0);
  if (args.compute != "real") co_return;
  start::LoadSpec spec;
  spec.cache_dir = places().cache_dir;
  Result<start::LoadedData> loaded_data = co_await start::load_dataset(rt, job, std::move(spec));
  status = loaded_data.status();
  if (!status.ok()) co_return;
  for (const std::string& note : loaded_data->notes) print_note(note);
  data = std::move(loaded_data->set);
}

Json phase_row(const std::string& algorithm, const start::SimulateReport& report, double wall_seconds) {
  const record::Summary& s = *report.ranks[0];
  Json row{{"algorithm", algorithm},
           {"ranks", s.workers},
           {"steps", s.steps},
           {"compute_seconds", s.compute_seconds},
           {"exposed_comm_seconds", s.exposed_seconds},
           {"step_seconds", s.measured_step_seconds},
           {"predicted_step_seconds", s.predicted_step_seconds},
           {"bytes_sent_per_step", s.bytes_sent_per_step},
           {"bytes_by_axis", s.bytes_by_axis},
           {"test_accuracy", s.test_accuracy},
           {"parameters_sha256", s.parameters_sha256},
           {"messages", report.world.num_messages},
           {"events", report.world.num_events},
           {"virtual_seconds", to_seconds(report.world.end_time)},
           {"trace_hash", fmt::format("{:016x}", report.world.trace_hash)},
           {"wall_seconds", wall_seconds}};
  if (s.pipeline) add_to_json(*s.pipeline, row);
  return row;
}

void print_head(const SimulateArgs& args, const job::Job& job) {
  std::fputs(fmt::format("{} virtual ranks, {} compute; times per step\n{:<11} {:>11} {:>13} {:>11} {:>11} "
                         "{:>12} {:>10} {:>11}\n",
                         job.parallel.workers, args.compute, "algorithm", "compute", "exposed comm", "step",
                         "predicted", "sent/rank", "messages", "took")
                 .c_str(),
             stdout);
}

void print_row(const Json& r) {
  std::fputs(
      fmt::format("{:<11} {:>11} {:>13} {:>11} {:>11} {:>12} {:>10} {:>9.2f} s\n",
                  r["algorithm"].get<std::string>(), format_duration(from_seconds(r["compute_seconds"])),
                  format_duration(from_seconds(r["exposed_comm_seconds"])),
                  format_duration(from_seconds(r["step_seconds"])),
                  format_duration(from_seconds(r["predicted_step_seconds"])),
                  format_bytes(static_cast<std::uint64_t>(r["bytes_sent_per_step"].get<double>())),
                  format_count(r["messages"]), r["wall_seconds"].get<double>())
          .c_str(),
      stdout);
  std::fputs(pipeline_lines(r).c_str(), stdout);
}

void set_machine(const SimulateArgs& args, cost::MachineModel& machine) {
  if (args.cores > 0) machine.cores = args.cores;
  if (args.gflops_per_core > 0) machine.flops_per_second_per_core = args.gflops_per_core * 1e9;
}

start::SimulateOptions options_for(const SimulateArgs& args, const job::Job& job,
                                   const std::string& algorithm) {
  start::SimulateOptions o;
  o.job = job;
  o.job.parallel.collective = algorithm;
  o.phantom = args.compute == "phantom";
  if (o.phantom) {
    o.job.train.steps = args.steps;
    o.job.train.batch = args.batch_per_rank * job.parallel.workers;
  }
  o.ranks_per_machine = args.ranks_per_machine;
  o.machine.cores = kCores;
  o.machine.flops_per_second_per_core = kGflopsPerCore * 1e9;
  set_machine(args, o.machine);
  o.link.latency_ns = from_seconds((args.latency_us >= 0 ? args.latency_us : kLatencyUs) * 1e-6);
  o.link.bytes_per_second = (args.bandwidth_gbit > 0 ? args.bandwidth_gbit : kGbit) * 1e9 / 8;
  o.seed = args.seed;
  o.latency_jitter = args.jitter;
  return o;
}

// What needs values, or kernels that run, is not ignored.
Status check_phantom(const start::SimulateOptions& o) {
  if (!o.phantom) return {};
  const auto refuse = [](std::string_view key, std::string_view why) {
    return error(Code::kInvalid, "[simulate] {}: a phantom run {}; take --compute real", key, why);
  };
  if (o.job.train.trace_steps > 0) return refuse("train.trace_steps", "runs no kernels to trace");
  if (o.job.train.patience) return refuse("train.patience", "evaluates nothing");
  return {};
}

// Where a topology or cluster was asked for, it says what machines and links there are; --cores, --gflops,
// --seed and --jitter, when given, come on top.
Status add_cluster(const SimulateArgs& args, runtime::RealRuntime& rt, start::SimulateOptions& o) {
  const int num_ranks = job::roles_of(o.job).world, num_machines = start::num_machines(o);
  TR_ASSIGN_OR_RETURN(runtime::WorldSpec world, load_cluster(args.cluster, num_machines, rt));
  TR_RETURN_IF_ERROR(check_faults(world.faults, num_ranks));
  o.faults = world.faults;
  if (!args.cluster.given()) {
    o.cluster.network = world.network;
    o.cluster.disk_faults = world.disk_faults;
    return {};
  }
  if (world.topology.num_machines() < num_machines)
    return error(Code::kInvalid, "[simulate] {} ranks need {} machines: the topology has {}", num_ranks,
                 num_machines, world.topology.num_machines());
  for (cost::MachineModel& machine : world.topology.machines) set_machine(args, machine);
  o.machine = world.topology.machines.front();
  o.link = cost::summarise(world.topology).typical;
  if (args.seed == kDefaultSeed) o.seed = world.seed;
  if (args.jitter == 0) o.latency_jitter = world.latency_jitter;
  o.cluster = std::move(world);
  return {};
}

Status slow_down(const SimulateArgs& args, start::SimulateOptions& o) {
  TR_ASSIGN_OR_RETURN(const std::vector<start::SlowRank> slow, parse_slow(args.slow_texts));
  if (slow.empty()) return {};
  const int num_ranks = job::roles_of(o.job).world;
  TR_RETURN_IF_ERROR(start::check_slow(slow, num_ranks));
  cost::Topology& topology = o.cluster.topology;
  if (topology.machines.empty())
    topology = cost::Topology::single_switch(start::num_machines(o), o.machine, o.link);
  for (const start::SlowRank& s : slow)
    topology.machines[static_cast<std::size_t>(start::machine_of(o, s.rank))].speed /= s.factor;
  return {};
}

// Failures by rank; ok when every rank that lives ended well.
int print_failures(const start::SimulateReport& report) {
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    if (report.ranks[r].ok()) continue;
    const std::string when =
        report.ended_at[r] < 0 ? "never ended" : "ended at " + format_duration(report.ended_at[r]);
    std::fputs(
        fmt::format("rank {} {}: {}\n", r, when, without_areas(report.ranks[r].status().message())).c_str(),
        stderr);
  }
  return kExitFailed;
}

// Before anything runs. `data` is null for phantom runs.
Status check_model(const job::Job& job, std::shared_ptr<const data::Dataset> data) {
  if (data == nullptr) {
    TR_ASSIGN_OR_RETURN(data, start::phantom_data(job, 1));
  }
  return start::check_cut(job, *data);
}

std::vector<std::string> algorithms_of(const SimulateArgs& args, const job::Job& job) {
  if (!args.algorithms.empty()) return args.algorithms;
  if (job.given_at.contains("parallel.collective")) return {job.parallel.collective};
  return {"ring", "fixed-tree"};
}

int run_simulate(const SimulateArgs& args) {
  runtime::RealOptions real;
  real.name = "simulate";
  const auto rt = runtime::make_real_runtime(real);
  job::Job job;
  std::shared_ptr<const data::Dataset> data;
  Status status;
  rt->run(load(*rt, args, job, data, status));
  if (!status.ok()) return print_error(status);
  const std::vector<std::string> algorithms = algorithms_of(args, job);
  Json rows = Json::array();
  StatusLine line(stderr_terminal(), [&rt] { return rt->now(); });
  for (const std::string& algorithm : algorithms) {
    start::SimulateOptions options = options_for(args, job, algorithm);
    status = job::check_job(options.job);
    if (status.ok()) status = check_phantom(options);
    if (status.ok()) status = add_cluster(args, *rt, options);
    if (status.ok()) status = slow_down(args, options);
    if (status.ok()) status = check_model(options.job, data);
    if (!status.ok()) return print_error(status);
    if (!args.json && &algorithm == &algorithms.front()) print_head(args, job);
    const TimeNs before = rt->now();
    line.show(fmt::format("simulating {} virtual ranks with {} ({} of {}) ...", job.parallel.workers,
                          algorithm, rows.size() + 1, algorithms.size()));
    const start::SimulateReport report = start::simulate_training(options, data);
    line.clear();
    for (const auto& rank : report.ranks)
      if (!rank.ok()) return print_failures(report);
    const Json row = phase_row(algorithm, report, to_seconds(rt->now() - before));
    rows.push_back(row);
    if (!args.json) print_row(row);
    if (!args.json && !row["parameters_sha256"].get<std::string>().empty())
      std::fputs(
          fmt::format("            parameters_sha256 {}\n", row["parameters_sha256"].get<std::string>())
              .c_str(),
          stdout);
  }
  if (args.json) std::fputs((rows.dump(2) + "\n").c_str(), stdout);
  return kExitOk;
}

}  // namespace

std::function<int()> add_simulate(Options& app) {
  auto args = std::make_shared<SimulateArgs>();
  add_job_options(app, args->job);
  app.add_option("--ranks", args->ranks,
                 "Number of virtual workers; separate servers have their own machines. Default: those of the "
                 "mesh, or 4")
      ->check(integer_in(1, 65536));
  app.add_option(
         "--ranks-per-machine", args->ranks_per_machine,
         "Workers that share a machine, its cores and its link, in the order of their ranks; default 1")
      ->check(integer_in(1, 65536));
  app.add_option("--mesh", args->mesh, "Mesh of the workers, such as data=8,model=4 (parallel.mesh)");
  app.add_option("--compute", args->compute,
                 "phantom: only sizes are simulated; real: the arithmetic is done too")
      ->check(one_of({"phantom", "real"}));
  std::vector<std::string> algorithms;
  for (const collective::Algorithm& row : collective::algorithm_table())
    if (row.kind == collective::Kind::kAllreduce) algorithms.emplace_back(row.name);
  app.add_option("--algorithm", args->algorithms,
                 "Allreduce algorithms to compare. Default: parallel.collective of the job, or ring and "
                 "fixed-tree where it says none")
      ->check(one_of(algorithms));
  app.add_option("--steps", args->steps, "Number of steps of a phantom run")->check(above_zero());
  app.add_option("--batch-per-rank", args->batch_per_rank, "Samples per rank of a phantom run")
      ->check(above_zero());
  app.add_option("--latency-us", args->latency_us, "Latency of the links in microseconds. Default: 25")
      ->check(zero_or_more());
  app.add_option("--gbit", args->bandwidth_gbit, "Bandwidth of the links in Gbit/s. Default: 10")
      ->check(above_zero());
  app.add_option("--cores", args->cores, "Cores per machine. Default: 2, or those of the topology or cluster")
      ->check(above_zero());
  app.add_option("--gflops", args->gflops_per_core,
                 "GFLOP/s per core. Default: 50, or those of the topology or cluster")
      ->check(above_zero());
  app.add_option("--seed", args->seed, "Seed of the jitter");
  app.add_option("--jitter", args->jitter, "Jitter of link latency, as a fraction")->check(number_in(0, 10));
  app.add_option("--slow", args->slow_texts, "Slow the machine of a rank down: rank=2,factor=4");
  add_cluster_options(app, args->cluster);
  app.add_flag("--json", args->json, "Print the table as JSON");
  return [args, collective = add_simulate_collective(app)] {
    const std::optional<int> code = collective();
    return code ? *code : run_simulate(*args);
  };
}

}  // namespace trireme::cli
