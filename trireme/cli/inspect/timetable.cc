// `trireme inspect timetable`: the timetables of pipelines; what one of them costs, and a drawing of it.
#include <charconv>
#include <cmath>

#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/parallel/pipeline/draw.h"
#include "trireme/parallel/pipeline/verify.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using parallel::PricedTimetable;
using parallel::TimetableRow;
using parallel::TimetableSpec;

struct TimetableArgs {
  TimetableSpec spec{.kind = "", .stages = 4, .micro_batches = 8};
  std::string times = "1,1,1,0", svg;
  bool json = false;
};

// More would fill the memory with numbers that nobody reads.
constexpr std::int64_t kMostActions = 4'000'000;

struct StageTimes {
  parallel::PhaseTimes phases;
  double message = 0;
};

// "f,b,w,link", and an update behind them.
Result<StageTimes> parse_times(const std::string& text) {
  std::vector<double> times;
  const char *at = text.data(), *end = text.data() + text.size();
  for (bool more = true; more;) {
    double& time = times.emplace_back();
    const auto [rest, failed] = std::from_chars(at, end, time);
    if (failed != std::errc() || !std::isfinite(time) || time < 0 || time > 1e9) {
      times.clear();
      break;
    }
    more = rest != end && *rest == ',';
    at = more ? rest + 1 : rest;
  }
  if (times.size() < 4 || times.size() > 5 || at != end || times[0] + times[1] + times[2] <= 0)
    return error(
        Code::kInvalid,
        "[inspect] --times: got '{}', expected F,B,W,LINK or F,B,W,LINK,U: numbers from 0 to 1e9 such as "
        "1,1,1,0.1",
        text);
  return StageTimes{{.forward = times[0],
                     .backward = times[1],
                     .weights = times[2],
                     .update = times.size() == 5 ? times[4] : 0},
                    times[3]};
}

Json list_timetables() {
  Json rows = Json::array();
  for (const TimetableRow& row : parallel::timetable_table())
    rows.push_back({{"name", row.name},
                    {"synchronous", row.is_synchronous},
                    {"splits_weights", row.splits_weights},
                    {"paper", row.paper},
                    {"doc", row.doc}});
  return rows;
}

struct InspectedTimetable {
  PricedTimetable priced;
  StageTimes times;  // of a stage
  const TimetableRow* row = nullptr;
};

Result<InspectedTimetable> inspect(const TimetableArgs& args) {
  InspectedTimetable found;
  const TimetableSpec& spec = args.spec;
  TR_RETURN_IF_ERROR(parallel::check_timetable(spec));
  found.row = *parallel::find_timetable_row(spec.kind);
  if (const std::int64_t actions = std::int64_t{3} * spec.chain() * spec.micro_batches;
      actions > kMostActions)
    return error(Code::kInvalid, "[inspect] {} actions are too many to show: expected at most {}", actions,
                 kMostActions);
  TR_ASSIGN_OR_RETURN(found.times, parse_times(args.times));
  // A virtual stage has its share of the layers of a stage.
  parallel::PhaseTimes phases = found.times.phases;
  for (double* time : {&phases.forward, &phases.backward, &phases.weights, &phases.update})
    *time /= spec.virtual_stages;
  TR_ASSIGN_OR_RETURN(found.priced, parallel::price_timetable(spec, parallel::TimetableTimes::equal(
                                                                        spec, phases, found.times.message)));
  TR_RETURN_IF_ERROR(parallel::verify_timetables(spec, found.priced.stages));
  return found;
}

Json actions_of(const PricedTimetable& priced, std::size_t stage) {
  Json actions = Json::array();
  for (std::size_t i = 0; i < priced.stages[stage].size(); ++i) {
    const parallel::TimetableAction& a = priced.stages[stage][i];
    const parallel::ActionTime& time = priced.price.stages[stage].times[i];
    actions.push_back({{"kind", std::string(1, parallel::phase_letter(a.phase))},
                       {"micro_batch", a.micro_batch},
                       {"virtual_stage", a.virtual_stage},
                       {"start", time.start},
                       {"end", time.end}});
  }
  return actions;
}

Json to_json(const InspectedTimetable& found) {
  const TimetableSpec& spec = found.priced.spec;
  const parallel::TimetablePrice& price = found.priced.price;
  Json json{{"kind", spec.kind},
            {"stages", spec.stages},
            {"virtual_stages", spec.virtual_stages},
            {"micro_batches", spec.micro_batches},
            {"synchronous", found.row->is_synchronous},
            {"splits_weights", found.row->splits_weights},
            {"step_time", price.step_seconds},
            {"makespan", price.makespan_seconds},
            {"bubble_fraction", price.bubble_fraction},
            {"verified", true}};
  for (const char* list : {"busy", "waits", "peak_in_flight", "weight_versions", "actions"})
    json[list] = Json::array();
  for (int s = 0; s < spec.stages; ++s) {
    const parallel::StagePrice& stage = price.stages[static_cast<std::size_t>(s)];
    json["busy"].push_back(stage.busy_seconds);
    json["waits"].push_back(stage.waiting_seconds);
    json["peak_in_flight"].push_back(stage.peak_in_flight);
    json["weight_versions"].push_back(found.row->weight_versions(spec, s));
    json["actions"].push_back(actions_of(found.priced, static_cast<std::size_t>(s)));
  }
  return json;
}

std::string headline_of(const InspectedTimetable& found) {
  const TimetableSpec& spec = found.priced.spec;
  return fmt::format("{}: {} stage{}{}, {} micro-batch{}", spec.kind, spec.stages,
                     spec.stages == 1 ? "" : "s",
                     spec.virtual_stages > 1 ? fmt::format(" of {} virtual stages", spec.virtual_stages) : "",
                     spec.micro_batches, spec.micro_batches == 1 ? "" : "es");
}

std::string to_text(const InspectedTimetable& found) {
  const parallel::TimetablePrice& price = found.priced.price;
  const parallel::PhaseTimes& t = found.times.phases;
  std::string text = fmt::format("{}\n{}\n\n", headline_of(found), found.row->doc);
  text += fmt::format("times of a stage: F {:g}, B {:g}, W {:g}, U {:g}; a message {:g}\n", t.forward,
                      t.backward, t.weights, t.update, found.times.message);
  text += fmt::format("{}: {:.6g}, of which {:.1f} % are waits\n\n",
                      found.row->is_synchronous ? "a step" : "all micro-batches", price.step_seconds,
                      100 * price.bubble_fraction);
  text += fmt::format("  {:<7}{:>10}{:>10}{:>11}{:>10}\n", "stage", "busy", "waits", "in flight", "versions");
  for (std::size_t s = 0; s < price.stages.size(); ++s)
    text += fmt::format("  {:<7}{:>10.6g}{:>10.6g}{:>11}{:>10}\n", s, price.stages[s].busy_seconds,
                        price.stages[s].waiting_seconds, price.stages[s].peak_in_flight,
                        found.row->weight_versions(found.priced.spec, static_cast<int>(s)));
  text +=
      "  waits: between its first and last action; in flight: activations kept, at most; versions: of "
      "weights\n\n";
  text += parallel::draw_text(found.priced);
  return text +
         "Proved: every phase of every micro-batch once and in order, no deadlock, memory as declared.\n";
}

runtime::Task<void> write_picture(runtime::Runtime& rt, std::string path, std::string picture,
                                  Status& status) {
  status = co_await rt.files().write_atomic(path, as_bytes(picture));
}

Status draw_to(const std::string& path, const InspectedTimetable& found) {
  TR_ASSIGN_OR_RETURN(const std::string picture, parallel::draw_svg(found.priced, headline_of(found)));
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  Status status;
  rt->run(write_picture(*rt, path, picture, status));
  return status;
}

Status run(const TimetableArgs& args) {
  TR_ASSIGN_OR_RETURN(const InspectedTimetable found, inspect(args));
  if (!args.svg.empty()) TR_RETURN_IF_ERROR(draw_to(args.svg, found));
  print_text(args.json ? to_json(found).dump(2) + "\n" : to_text(found));
  return {};
}

void list(bool json) {
  const Json rows = list_timetables();
  if (json) print_text(rows.dump(2) + "\n");
  if (!json) print_rows(rows);
}

}  // namespace

std::function<int()> add_inspect_timetable(Options& inspect_app) {
  auto args = std::make_shared<TimetableArgs>();
  Options* sub = inspect_app.add_subcommand(
      "timetable", "List the timetables of pipelines; show what one costs, prove it and draw it.");
  Option* kind = sub->add_option("--kind", args->spec.kind, "Show this timetable");
  sub->add_option("--stages", args->spec.stages, "Number of stages. Default: 4")
      ->check(integer_in(1, 1024))
      ->needs(kind);
  sub->add_option("--micro-batches", args->spec.micro_batches, "Micro-batches of a step. Default: 8")
      ->check(integer_in(1, 65536))
      ->needs(kind);
  sub->add_option("--virtual-stages", args->spec.virtual_stages,
                  "Virtual stages per stage (interleaved). Default: 1")
      ->check(integer_in(1, 256))
      ->needs(kind);
  sub->add_option("--update-every", args->spec.update_every,
                  "Micro-batches for an update (2bw). Default: as many as stages")
      ->check(integer_in(1, 65536))
      ->needs(kind);
  sub->add_option("--times", args->times,
                  "Times of a stage for F, B, W, of a message and, if given, of an update. Default: 1,1,1,0")
      ->type_name("F,B,W,LINK[,U]")
      ->needs(kind);
  sub->add_option("--svg", args->svg, "Write a picture to this file")->needs(kind);
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub, kind] {
    if (!sub->parsed()) return kExitOk;
    if (!kind->given()) {
      list(args->json);
      return kExitOk;
    }
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
