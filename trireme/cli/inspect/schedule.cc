// `trireme inspect schedule`: which algorithm a collective would take and why, and a drawing of a schedule.
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/cli/cluster_file.h"
#include "trireme/cli/command.h"
#include "trireme/cli/number_checks.h"
#include "trireme/collective/draw.h"
#include "trireme/collective/formulas.h"
#include "trireme/cost/cost_json.h"
#include "trireme/cost/routes.h"
#include "trireme/measure/direct.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/calibration_file.h"
#include "trireme/tensor/dtype.h"

namespace trireme::cli {
namespace {

using collective::Choice;
using collective::RankProgram;
using collective::ScheduleSpec;

struct ScheduleArgs {
  std::string kind = "allreduce", bytes = "1MB", dtype = "f32", algorithm, transport, calibration, groups;
  std::string draw, out, segment = "1MB";
  ClusterArgs cluster;  // only its topology and link
  std::optional<cost::CommModel> of_cluster;
  int world = 4, root = 0, rank = -1;
  double latency_us = -1, gbit = -1;
  bool peer_memory = false, json = false;
};

// Programs of that many ranks and elements are proved in about a second; larger ones are proved for fewer
// elements.
constexpr int kMaxProvedWorld = 33;
constexpr std::int64_t kMaxProvedElems = 100'000;

Result<collective::Kind> parse_kind(const std::string& name) {
  if (name == "neighbours") return collective::Kind::kNeighbours;  // its name before American spelling
  std::string known;
  for (int k = 1; k <= static_cast<int>(collective::Kind::kNeighbours); ++k) {
    const auto kind = static_cast<collective::Kind>(k);
    if (collective::kind_name(kind) == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", collective::kind_name(kind));
  }
  return error(Code::kInvalid, "[inspect] no such collective: got '{}', expected one of {}", name, known);
}

// "4": machines of four ranks in order; "0,0,1,1": the machine of every rank.
Result<std::vector<std::int32_t>> parse_groups(const std::string& text, int world) {
  std::vector<std::int32_t> groups;
  std::vector<int> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    if (item.empty() || item.size() > 6 || item.find_first_not_of("0123456789") != std::string::npos)
      return error(
          Code::kInvalid,
          "[inspect] --groups: got '{}', expected ranks per machine (4) or the machine of every rank "
          "(0,0,1,1)",
          text);
    numbers.push_back(std::stoi(item));
    at = end + 1;
  }
  if (numbers.size() == 1 && numbers[0] < 1)
    return error(Code::kInvalid, "[inspect] --groups: got 0 ranks per machine, expected at least 1");
  if (numbers.size() == 1)
    for (int r = 0; r < world; ++r) groups.push_back(r / numbers[0]);
  else
    groups.assign(numbers.begin(), numbers.end());
  return groups;
}

Result<ScheduleSpec> spec_of(const ScheduleArgs& args) {
  ScheduleSpec spec;
  TR_ASSIGN_OR_RETURN(spec.kind, parse_kind(args.kind));
  TR_ASSIGN_OR_RETURN(const DType dtype, parse_dtype(args.dtype));
  TR_ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_bytes(args.bytes));
  TR_ASSIGN_OR_RETURN(const std::uint64_t segment, parse_bytes(args.segment));
  spec.world = args.world;
  spec.root = args.root;
  spec.elem_bytes = static_cast<std::int32_t>(dtype_size(dtype));
  spec.count = static_cast<std::int64_t>(bytes) / spec.elem_bytes;
  spec.segment_bytes = static_cast<std::int64_t>(segment);
  spec.peer_memory = args.peer_memory || args.transport == measure::kDirectName;
  if (!args.groups.empty()) {
    TR_ASSIGN_OR_RETURN(spec.group_of, parse_groups(args.groups, args.world));
  }
  if (spec.kind == collective::Kind::kBarrier) spec.count = 0;
  if (spec.kind == collective::Kind::kNeighbours) {
    // A ring of neighbours, both ways.
    const std::int64_t each = spec.count;
    spec.count = 0;
    for (int r = 0; r < spec.world; ++r)
      for (int step = 1; step < std::min(spec.world, 3); ++step) {
        const int to = step == 1 ? (r + 1) % spec.world : (r + spec.world - 1) % spec.world;
        spec.count += spec.edges.emplace_back(collective::Edge{r, to, each}).count;
      }
  }
  TR_RETURN_IF_ERROR(collective::check_spec(spec));
  return spec;
}

struct Model {
  cost::CommModel comm;
  std::string source;
};

Result<Model> model_of(const ScheduleArgs& args, const std::optional<cost::Calibration>& calibration) {
  Model model;
  model.source = "default link; `trireme calibrate` measures this host, --transport takes what it measured";
  if (!args.transport.empty()) {
    if (!calibration)
      return error(
          Code::kNotFound,
          "[inspect] --transport {} needs a calibration: got none, expected {}; run trireme calibrate",
          args.transport, places().calibration());
    TR_ASSIGN_OR_RETURN(model.comm, cost::comm_model(*calibration, args.transport, args.world));
    model.source =
        fmt::format("{} on {}, calibrated {}", args.transport, calibration->host, calibration->date);
  }
  if (args.of_cluster) {
    model.comm = *args.of_cluster;
    model.source = fmt::format("the typical way between two machines of {}",
                               args.cluster.topology.empty() ? "a switch" : args.cluster.topology);
  }
  if (args.latency_us >= 0) model.comm.link.latency_ns = from_seconds(args.latency_us * 1e-6);
  if (args.gbit > 0) model.comm.link.bytes_per_second = args.gbit * 1e9 / 8;
  if (args.latency_us >= 0 || args.gbit > 0) model.source += ", with --latency-us or --gbit";
  return model;
}

Status verify(const collective::Algorithm& algorithm, ScheduleSpec spec) {
  if (spec.world > kMaxProvedWorld)
    return error(Code::kUnavailable, "not proved here: more than {} ranks", kMaxProvedWorld);
  if (spec.count > kMaxProvedElems && spec.counts.empty() && spec.edges.empty()) {
    // The same chunks and segments, of fewer elements.
    spec.segment_bytes = std::max<std::int64_t>(
        spec.elem_bytes,
        static_cast<std::int64_t>(static_cast<double>(spec.segment_bytes) *
                                  static_cast<double>(kMaxProvedElems) / static_cast<double>(spec.count)));
    spec.count = kMaxProvedElems;
  } else if (spec.count > kMaxProvedElems) {
    return error(Code::kUnavailable, "not proved here: more than {} elements in blocks", kMaxProvedElems);
  }
  return collective::verify_schedule(algorithm, spec);
}

struct Inspection {
  ScheduleSpec spec;
  Model model;
  Choice choice;
  const collective::Algorithm* shown = nullptr;  // the choice, or --algorithm
  Status verified;
  std::vector<RankProgram> programs;  // where something is drawn
};

double bound_seconds(const Inspection& i) {
  const cost::LinkModel& link = i.model.comm.link;
  return collective::allreduce_bound().seconds(to_seconds(link.latency_ns),
                                               static_cast<double>(i.spec.bytes()), 1 / link.bytes_per_second,
                                               i.spec.world);
}

Json to_json(const ScheduleArgs& args, const Inspection& i) {
  Json rows = Json::array();
  for (const auto& c : i.choice.candidates) {
    Json row{{"algorithm", c.algorithm->name}, {"applicable", c.applicable.ok()}};
    if (c.applicable.ok())
      row.update({{"predicted_us", static_cast<double>(c.time) * 1e-3},
                  {"rounds", c.price.rounds},
                  {"messages", c.price.messages_sent},
                  {"bytes_sent", c.price.bytes_per_rank},
                  {"bytes_in_a_row", c.price.serial_bytes},
                  {"bytes_added", c.price.reduce_bytes_per_rank}});
    else
      row["reason"] = c.applicable.message();
    rows.push_back(row);
  }
  Json json{{"collective", args.kind},
            {"world", i.spec.world},
            {"bytes", i.spec.bytes()},
            {"dtype", args.dtype},
            {"link", cost::to_json(i.model.comm.link)},
            {"model", i.model.source},
            {"candidates", rows},
            {"choice", i.choice.algorithm->name},
            {"reason", i.choice.reason},
            {"algorithm", i.shown->name},
            {"verified", i.verified.ok()},
            {"verifier", i.verified.ok() ? "proved" : i.verified.message()}};
  if (i.spec.kind == collective::Kind::kAllreduce && i.spec.world > 1)
    json["bound_us"] = bound_seconds(i) * 1e6;
  if (args.draw.empty()) return json;
  Json messages = Json::array();
  for (const auto& m : collective::messages_by_round(i.programs))
    messages.push_back({{"round", m.round},
                        {"from", m.from},
                        {"to", m.to},
                        {"bytes", m.count * i.spec.elem_bytes},
                        {"chunk", m.first_chunk},
                        {"chunks", m.num_chunks},
                        {"added", m.is_added},
                        {"read", m.is_read}});
  json["messages"] = messages;
  return json;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_text(const ScheduleArgs& args, const Inspection& i) {
  const cost::LinkModel& link = i.model.comm.link;
  print(fmt::format("{} of {} ({} x {}) over {} ranks\n", args.kind, format_bytes(i.spec.bytes()),
                    i.spec.count, args.dtype, i.spec.world));
  print(fmt::format("link: latency {}, {:.3g} Gbit/s, {} per message ({})\n\n",
                    format_duration(link.latency_ns), link.bytes_per_second * 8e-9,
                    format_duration(link.message_overhead_ns), i.model.source));
  print(fmt::format("  {:<14}{:>11}{:>8}{:>10}{:>12}{:>12}\n", "algorithm", "predicted", "rounds", "messages",
                    "sent", "added"));
  const auto bytes = [](double b) { return format_bytes(static_cast<std::uint64_t>(b)); };
  for (const auto& c : i.choice.candidates) {
    if (c.applicable.ok())
      print(fmt::format("{} {:<14}{:>11}{:>8}{:>10}{:>12}{:>12}\n",
                        c.algorithm == i.choice.algorithm ? '*' : ' ', c.algorithm->name,
                        format_duration(c.time), c.price.rounds, c.price.messages_sent,
                        bytes(c.price.bytes_per_rank), bytes(c.price.reduce_bytes_per_rank)));
    else
      print(fmt::format("  {:<14}does not apply: {}\n", c.algorithm->name,
                        without_areas(c.applicable.message())));
  }
  print("  rounds: longest chain of messages; messages, sent and added: by the busiest rank\n\n");
  print(fmt::format("choice: {}\n", i.choice.reason));
  if (i.spec.kind == collective::Kind::kAllreduce && i.spec.world > 1)
    print(fmt::format("bound:  {} = {}\n", format_duration(from_seconds(bound_seconds(i))),
                      collective::allreduce_bound().text));
  print(fmt::format("{}: {}\n", i.shown->name,
                    i.verified.ok()
                        ? "proved: every rank ends with what it was promised, no race, no deadlock"
                        : i.verified.message()));
}

// What is drawn, where it is not a file.
Result<std::string> drawing(const ScheduleArgs& args, const Inspection& i) {
  if (args.draw == "text") {
    std::string text = collective::draw_text(i.programs, i.spec, args.rank);
    if (args.rank >= 0) text += "\n" + i.programs[static_cast<std::size_t>(args.rank)].to_text();
    return text;
  }
  return collective::draw_svg(i.programs, i.spec,
                              fmt::format("{} by {}: {} over {} ranks", args.kind, i.shown->name,
                                          format_bytes(i.spec.bytes()), i.spec.world));
}

// Sums through shared memory are those that read: the others send messages.
std::vector<const collective::Algorithm*> candidates_of(const ScheduleArgs& args, const ScheduleSpec& spec) {
  std::vector<const collective::Algorithm*> rows = collective::algorithms_of(spec.kind);
  if (args.transport == measure::kDirectName)
    std::erase_if(rows, [&](const collective::Algorithm* a) {
      return !a->applicable(spec).ok() || a->price(spec).peer_copy_bytes == 0;
    });
  return rows;
}

Status inspect(const ScheduleArgs& args, const std::optional<cost::Calibration>& calibration, Inspection& i) {
  TR_ASSIGN_OR_RETURN(i.spec, spec_of(args));
  TR_ASSIGN_OR_RETURN(i.model, model_of(args, calibration));
  if (args.rank >= args.world)
    return error(Code::kInvalid, "[inspect] --rank: got {}, expected 0..{}", args.rank, args.world - 1);
  TR_ASSIGN_OR_RETURN(i.choice, collective::choose(i.spec, candidates_of(args, i.spec), i.model.comm));
  i.shown = i.choice.algorithm;
  if (!args.algorithm.empty()) {
    const auto found = collective::find_algorithm(i.spec.kind, args.algorithm);
    if (!found.ok()) return Status(Code::kInvalid, found.status().message());
    i.shown = *found;
    TR_RETURN_IF_ERROR(i.shown->applicable(i.spec));
  }
  i.verified = verify(*i.shown, i.spec);
  if (!i.verified.ok() && i.verified.code() != Code::kUnavailable) return i.verified;
  for (int r = 0; r < i.spec.world && !args.draw.empty(); ++r) {
    TR_ASSIGN_OR_RETURN(RankProgram program, collective::build_program(*i.shown, i.spec, r));
    i.programs.push_back(std::move(program));
  }
  return {};
}

runtime::Task<Status> run(runtime::Runtime& rt, const ScheduleArgs& args) {
  const Result<std::optional<cost::Calibration>> calibration =
      co_await start::read_calibration(rt, places(), args.calibration);
  if (!calibration.ok()) co_return calibration.status();
  Inspection i;
  TR_CO_RETURN_IF_ERROR(inspect(args, *calibration, i));
  std::string picture;
  if (!args.draw.empty()) {
    TR_CO_ASSIGN_OR_RETURN(picture, drawing(args, i));
  }
  if (args.json)
    print(to_json(args, i).dump(2) + "\n");
  else if (args.draw != "svg" || !args.out.empty())
    print_text(args, i);
  if (!args.out.empty())
    TR_CO_RETURN_IF_ERROR(co_await rt.files().write_atomic(args.out, as_bytes(picture)));
  else if (!args.json)
    print((args.draw == "text" ? "\n" : "") + picture);
  co_return Status();
}

// A machine per rank; where --groups has fewer, the typical way is the same.
Status load_topology(ScheduleArgs& args, runtime::RealRuntime& rt) {
  if (!args.cluster.given()) return {};
  TR_ASSIGN_OR_RETURN(const runtime::WorldSpec world, load_cluster(args.cluster, args.world, rt));
  cost::CommModel model(cost::summarise(world.topology).typical, world.topology.machines.front());
  model.local = world.topology.local;
  args.of_cluster = model;
  return {};
}

runtime::Task<void> keep(runtime::Task<Status> task, Status& status) { status = co_await std::move(task); }

}  // namespace

std::function<int()> add_inspect_schedule(Options& inspect_app) {
  auto args = std::make_shared<ScheduleArgs>();
  Options* sub = inspect_app.add_subcommand(
      "schedule",
      "Show which algorithm a collective would use, its predicted cost and why; draw its schedule.");
  sub->add_option("--collective", args->kind,
                  "Kind of collective: allreduce, broadcast... (trireme inspect collectives)");
  sub->add_option("--world", args->world, "Number of ranks")->check(integer_in(1, 65536));
  sub->add_option("--bytes", args->bytes, "Size of the data, such as 64K or 1MB (of one edge for neighbors)");
  sub->add_option("--dtype", args->dtype, "Element type: f32, bf16...");
  sub->add_option("--algorithm", args->algorithm, "Prove and draw this algorithm instead of the chosen one");
  sub->add_option("--root", args->root, "Root of broadcast, reduce, gather, scatter");
  sub->add_option("--segment", args->segment, "Segment size of the chain algorithm");
  sub->add_option("--groups", args->groups,
                  "Ranks per machine (4), or the machine of every rank (0,0,1,1), for hierarchical");
  sub->add_option("--topology", args->cluster.topology,
                  "Predict for a topology, NAME[,KEY=VALUE...], as in trireme simulate");
  sub->add_option("--link", args->cluster.link,
                  "Network link of a machine: BANDWIDTH[,LATENCY[,OVERHEAD]], such as 10gbit,25us,2us");
  sub->add_flag("--peer-memory", args->peer_memory, "Assume a transport that reads peers' memory in place");
  sub->add_option(
      "--transport", args->transport,
      "Predict by the calibration of this transport on this host; direct: sums through shared memory");
  sub->add_option("--calibration", args->calibration,
                  "Calibration file. Default: what trireme calibrate stored");
  sub->add_option("--latency-us", args->latency_us, "Latency of the link in microseconds")
      ->check(zero_or_more());
  sub->add_option("--gbit", args->gbit, "Bandwidth of the link in Gbit/s")->check(above_zero());
  Option* draw =
      sub->add_option("--draw", args->draw, "Draw the schedule: text or svg")->check(one_of({"text", "svg"}));
  sub->add_option("--out", args->out, "Write the drawing to this file")->needs(draw);
  sub->add_option("--rank", args->rank, "Draw this rank only, with the steps of its program (text)")
      ->check(zero_or_more())
      ->needs(draw);
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    runtime::RealOptions real;
    real.name = "inspect";
    const auto rt = runtime::make_real_runtime(real);
    Status status = load_topology(*args, *rt);
    if (status.ok()) rt->run(keep(run(*rt, *args), status));
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
