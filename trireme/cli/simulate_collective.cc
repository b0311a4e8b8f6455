#include "trireme/cli/simulate_collective.h"

#include <algorithm>
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/base/near_names.h"
#include "trireme/cli/cluster_file.h"
#include "trireme/cli/faults.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/terminal.h"
#include "trireme/cost/quantity.h"
#include "trireme/cost/routes.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/simulate_collective.h"

namespace trireme::cli {
namespace {

using collective::Kind;

constexpr const char* kOldNeighbors = "neighbours";  // the name before American spelling; still understood

struct CollectiveArgs {
  Kind kind = Kind::kAllreduce;
  std::string kind_name;  // of `simulate collective`
  int ranks = 0, ranks_per_machine = 1, root = 0;
  std::string bytes = "4MB", deadline;
  ClusterArgs cluster;
  std::vector<std::string> algorithms{"all"};
  std::uint64_t seed = 0;  // 0: the cluster file's, or 1
  double jitter = -1;
  bool json = false;
};

constexpr Kind kKinds[] = {Kind::kAllreduce,  Kind::kReduce,    Kind::kBroadcast,     Kind::kGather,
                           Kind::kScatter,    Kind::kAllgather, Kind::kReduceScatter, Kind::kAllToAll,
                           Kind::kNeighbours, Kind::kBarrier};

Result<start::CollectiveOptions> options_of(const CollectiveArgs& args, runtime::RealRuntime& rt) {
  constexpr int kDefaultRanks = 64;
  start::CollectiveOptions o;
  o.kind = args.kind;
  o.ranks_per_machine = args.ranks_per_machine;
  o.root = args.root;
  TR_ASSIGN_OR_RETURN(o.bytes, parse_bytes(args.bytes));
  TR_ASSIGN_OR_RETURN(const bool sized, has_size(args.cluster, rt));
  const int wanted = args.ranks > 0 ? args.ranks : sized ? 0 : kDefaultRanks;
  const int machines = (wanted + args.ranks_per_machine - 1) / args.ranks_per_machine;
  TR_ASSIGN_OR_RETURN(o.world, load_cluster(args.cluster, machines, rt));
  o.ranks = args.ranks > 0 ? args.ranks : o.world.topology.num_machines() * args.ranks_per_machine;
  TR_RETURN_IF_ERROR(check_faults(o.world.faults, o.ranks));
  if (args.seed > 0) o.world.seed = args.seed;
  if (args.jitter >= 0) o.world.latency_jitter = args.jitter;
  const bool faulty = !o.world.faults.empty() || !o.world.network.faults.empty();
  o.deadline = faulty ? 2 * kSecond : 0;
  if (!args.deadline.empty()) {
    TR_ASSIGN_OR_RETURN(o.deadline, cost::parse_duration(args.deadline));
  }
  TR_RETURN_IF_ERROR(start::check_collective_options(o));
  return o;
}

Result<std::vector<const collective::Algorithm*>> algorithms_of(const CollectiveArgs& args) {
  if (args.algorithms == std::vector<std::string>{"all"}) return collective::algorithms_of(args.kind);
  std::vector<const collective::Algorithm*> rows;
  for (const std::string& name : args.algorithms) {
    const auto found = collective::find_algorithm(args.kind, name);
    if (!found.ok()) return Status(Code::kInvalid, found.status().message());
    rows.push_back(*found);
  }
  return rows;
}

struct Simulated {
  start::CollectiveRow row;
  double wall_seconds = 0;
};

bool goes_first(const Simulated& a, const Simulated& b) {
  const auto rank = [](const Simulated& s) { return !s.row.applicable.ok() ? 2 : s.row.result.ok() ? 0 : 1; };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return rank(a) == 0 && a.row.time < b.row.time;
}

Json json_row(const Simulated& s) {
  const start::CollectiveRow& r = s.row;
  Json row{{"algorithm", r.algorithm}, {"applicable", r.applicable.ok()}};
  if (!r.applicable.ok()) {
    row["reason"] = r.applicable.message();
    return row;
  }
  row.update(Json{{"ok", r.result.ok()},
                  {"virtual_seconds", to_seconds(r.time)},
                  {"predicted_seconds", to_seconds(r.predicted)},
                  {"rounds", r.rounds},
                  {"bytes_per_rank", r.bytes_per_rank},
                  {"messages", r.messages},
                  {"events", r.events},
                  {"trace_hash", fmt::format("{:016x}", r.trace_hash)},
                  {"wall_seconds", s.wall_seconds}});
  if (!r.result.ok()) {
    row["failed_ranks"] = r.num_failed;
    row["reason"] = r.result.message();
  }
  return row;
}

void print_table(const start::CollectiveOptions& o, const std::vector<Simulated>& rows) {
  const cost::Topology& t = o.world.topology;
  const cost::TopologySummary s = cost::summarise(t);
  std::string text = fmt::format(
      "{} of {} by {} virtual ranks on {}: {} machine{}, {} switch{}, {} and {:.3g} Gbit/s between two\n"
      "{:<13} {:>10} {:>10} {:>7} {:>7} {:>10} {:>9} {:>9}\n",
      collective::kind_name(o.kind), format_bytes(o.bytes), o.ranks, t.name, t.num_machines(),
      t.num_machines() == 1 ? "" : "s", t.num_switches(), t.num_switches() == 1 ? "" : "es",
      format_duration(s.typical.latency_ns), s.typical.bytes_per_second * 8e-9, "algorithm", "time",
      "predicted", "error", "rounds", "sent/rank", "messages", "took");
  for (const Simulated& one : rows) {
    const start::CollectiveRow& r = one.row;
    if (!r.applicable.ok()) {
      text += fmt::format("{:<13} does not apply: {}\n", r.algorithm, without_areas(r.applicable.message()));
    } else if (!r.result.ok()) {
      text += fmt::format("{:<13} failed on {} of {} ranks after {}: {}\n", r.algorithm, r.num_failed,
                          o.ranks, format_duration(r.time), without_areas(r.result.message()));
    } else {
      text += fmt::format(
          "{:<13} {:>10} {:>10} {:>6.0f}% {:>7} {:>10} {:>9} {:>7.2f} s\n", r.algorithm,
          format_duration(r.time), format_duration(r.predicted),
          r.time > 0 ? 100.0 * (static_cast<double>(r.predicted) / static_cast<double>(r.time) - 1) : 0.0,
          r.rounds, format_bytes(r.bytes_per_rank), format_count(static_cast<double>(r.messages)),
          one.wall_seconds);
    }
  }
  if (!rows.empty() && rows[0].row.applicable.ok() && rows[0].row.result.ok())
    text += fmt::format("fastest: {}\n", rows[0].row.algorithm);
  std::fputs(text.c_str(), stdout);
}

int run_collective(CollectiveArgs args) {
  if (!args.kind_name.empty())
    for (const Kind kind : kKinds)
      if (collective::kind_name(kind) == args.kind_name) args.kind = kind;
  if (args.kind_name == kOldNeighbors) args.kind = Kind::kNeighbours;
  runtime::RealOptions real;
  real.name = "simulate";
  const auto rt = runtime::make_real_runtime(real);
  const auto algorithms = algorithms_of(args);
  if (!algorithms.ok()) return print_error(algorithms.status());
  const auto options = options_of(args, *rt);
  if (!options.ok()) return print_error(options.status());
  std::vector<Simulated> rows;
  StatusLine line(stderr_terminal(), [&rt] { return rt->now(); });
  for (const collective::Algorithm* algorithm : *algorithms) {
    const TimeNs before = rt->now();
    line.show(fmt::format("simulating {} by {} virtual ranks: {} ({} of {}) ...",
                          collective::kind_name(options->kind), options->ranks, algorithm->name,
                          rows.size() + 1, algorithms->size()));
    rows.push_back({start::simulate_collective(*options, *algorithm), 0});
    rows.back().wall_seconds = to_seconds(rt->now() - before);
  }
  line.clear();
  std::stable_sort(rows.begin(), rows.end(), goes_first);
  bool all_ok = true, any = false;
  Json json_rows = Json::array();
  for (const Simulated& s : rows) {
    any = any || s.row.applicable.ok();
    all_ok = all_ok && (!s.row.applicable.ok() || s.row.result.ok());
    json_rows.push_back(json_row(s));
  }
  if (args.json) {
    const Json report{{"collective", collective::kind_name(options->kind)},
                      {"ranks", options->ranks},
                      {"bytes", options->bytes},
                      {"topology", options->world.topology.name},
                      {"machines", options->world.topology.num_machines()},
                      {"seed", options->world.seed},
                      {"fastest", any && rows[0].row.result.ok() ? Json(rows[0].row.algorithm) : Json()},
                      {"rows", std::move(json_rows)}};
    std::fputs((report.dump(2) + "\n").c_str(), stdout);
  } else {
    print_table(*options, rows);
  }
  return all_ok && any ? kExitOk : kExitFailed;
}

void add_options(Options& app, CollectiveArgs& args) {
  app.add_option("--ranks", args.ranks,
                 "Number of virtual ranks. Default: 64, or the machines of the cluster file")
      ->check(integer_in(1, 65536));
  app.add_option("--ranks-per-machine", args.ranks_per_machine, "Ranks per machine")
      ->check(integer_in(1, 65536));
  app.add_option("--bytes", args.bytes, "Size of the data, such as 4MB or 64K")->type_name("SIZE");
  app.add_option("--algorithm", args.algorithms, "Algorithms to compare, or all")->delimiter(',');
  app.add_option("--root", args.root, "Root of reduce, broadcast, gather and scatter");
  add_cluster_options(app, args.cluster);
  app.add_option("--deadline", args.deadline,
                 "Silence after which a rank counts as lost. Default: none; 2s with faults")
      ->type_name("TIME");
  app.add_option("--seed", args.seed, "Seed of jitter and faults")->check(above_zero());
  app.add_option("--jitter", args.jitter, "Jitter of every latency, as a fraction")->check(number_in(0, 100));
  app.add_flag("--json", args.json, "Print the table as JSON");
}

}  // namespace

std::function<std::optional<int>()> add_simulate_collective(Options& simulate) {
  std::vector<std::pair<Options*, std::shared_ptr<CollectiveArgs>>> subs;
  std::vector<std::string> names;
  for (const Kind kind : kKinds) {
    const std::string name(collective::kind_name(kind));
    names.push_back(name);
    auto args = std::make_shared<CollectiveArgs>();
    args->kind = kind;
    Options* sub = simulate.add_subcommand(
        name, fmt::format("Simulate every algorithm of {} on a virtual cluster.", name));
    if (kind == Kind::kNeighbours) sub->alias(kOldNeighbors);
    add_options(*sub, *args);
    subs.emplace_back(sub, std::move(args));
  }
  auto args = std::make_shared<CollectiveArgs>();
  Options* any = simulate.add_subcommand("collective", "The same, with the kind of collective as an option.");
  any->add_option("--kind", args->kind_name, "Kind of collective: " + joined(names))
      ->check({[names](const std::string& given) -> std::string {
                 if (given == kOldNeighbors || std::find(names.begin(), names.end(), given) != names.end())
                   return {};
                 return fmt::format("got '{}', expected one of {}", given, joined(names));
               },
               ""})
      ->required();
  add_options(*any, *args);
  subs.emplace_back(any, std::move(args));
  return [subs]() -> std::optional<int> {
    for (const auto& [sub, args] : subs)
      if (sub->parsed()) return run_collective(*args);
    return std::nullopt;
  };
}

}  // namespace trireme::cli
