// `trireme inspect schedules [--plot NAME]`: the schedules, and the curve of one in characters.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "trireme/cli/inspect/parts.h"
#include "trireme/job/job_parts.h"
#include "trireme/model/schedule.h"

namespace trireme::cli {
namespace {

constexpr int kColumns = 61, kRows = 11;
constexpr std::int64_t kSamples = 1'000'000;  // of the run that is drawn

struct SchedulesArgs {
  std::string plot;
  std::vector<std::string> sets;
  bool json = false;
};

struct Curve {
  std::vector<double> rates;              // one per column
  std::vector<std::int64_t> multipliers;  // of the batch
};

// The schedule of the default job with --set on top; milestones where step has none.
Result<model::Schedule> schedule_for(const SchedulesArgs& args) {
  job::Job job;
  job.train.optimizer.schedule = args.plot;
  if (args.plot == "step") job.train.optimizer.milestones = {0.5, 0.75};
  for (const std::string& set : args.sets) TR_RETURN_IF_ERROR(job::set_job_key(job, set));
  model::Schedule s = job::schedule_of(job);
  const Status status = model::check_schedule(s);
  if (status.ok()) return s;
  std::vector<std::string_view> names;
  for (const model::ScheduleRow& row : model::schedule_table()) names.emplace_back(row.name);
  if (std::find(names.begin(), names.end(), s.kind) != names.end())
    return Status(Code::kInvalid, std::string(status.message()));
  const std::string near = did_you_mean(s.kind, names);
  return error(Code::kInvalid, "[inspect] no schedule is called '{}'{} Expected one of: {}", s.kind,
               near.empty() ? "." : near, fmt::join(names, ", "));
}

Curve curve_of(const model::Schedule& s) {
  Curve curve;
  for (int c = 0; c < kColumns; ++c) {
    const model::SchedulePoint p = model::schedule_at(s, kSamples * c / (kColumns - 1), kSamples);
    curve.rates.push_back(p.lr);
    curve.multipliers.push_back(p.batch_multiplier);
  }
  return curve;
}

// Rows from the highest rate down to 0; a column's mark is in the row nearest to its rate.
std::string draw(const Curve& curve) {
  const double top = *std::max_element(curve.rates.begin(), curve.rates.end());
  std::string text;
  for (int r = 0; r < kRows; ++r) {
    const double level = top * (kRows - 1 - r) / (kRows - 1);
    std::string line(static_cast<std::size_t>(kColumns), ' ');
    for (int c = 0; c < kColumns; ++c) {
      const double rate = curve.rates[static_cast<std::size_t>(c)];
      if (std::lround((top - rate) / top * (kRows - 1)) == r) line[static_cast<std::size_t>(c)] = '*';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>10.4g} |{}\n", level, line);
  }
  text += fmt::format("{:>10} +{}\n{:>12}0{:>{}}\n", "", std::string(static_cast<std::size_t>(kColumns), '-'),
                      "", "fraction of the run  1", kColumns - 1);
  const std::int64_t most = *std::max_element(curve.multipliers.begin(), curve.multipliers.end());
  if (most > 1) text += fmt::format("The batch grows to {} times train.batch.\n", most);
  return text;
}

Status run(const SchedulesArgs& args) {
  if (args.plot.empty()) {
    if (!args.sets.empty())
      return error(Code::kInvalid, "[inspect] --set goes with --plot; add --plot cosine");
    const Json rows = list_schedules();
    if (args.json) print_text(rows.dump(2) + "\n");
    if (!args.json) print_rows(rows);
    return {};
  }
  TR_ASSIGN_OR_RETURN(const model::Schedule s, schedule_for(args));
  const Curve curve = curve_of(s);
  if (args.json) {
    print_text(Json{{"name", s.kind}, {"lr", curve.rates}, {"batch_multiplier", curve.multipliers}}.dump(2) +
               "\n");
    return {};
  }
  print_text(fmt::format("{}: learning rate over the run\n{}", s.kind, draw(curve)));
  return {};
}

}  // namespace

std::function<int()> add_inspect_schedules(Options& inspect) {
  auto args = std::make_shared<SchedulesArgs>();
  Options* sub =
      inspect.add_subcommand("schedules", "List the learning-rate schedules and draw their curves.");
  sub->add_option("--plot", args->plot, "Draw this schedule, with the settings of the built-in job");
  sub->add_option("--set", args->sets, "Override keys of that job, such as train.optimizer.warmup=0.2")
      ->type_name("KEY=VALUE");
  sub->add_flag("--json", args->json, "As JSON; with --plot the learning rates");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
