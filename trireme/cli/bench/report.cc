#include "trireme/cli/bench/report.h"

#include <algorithm>
#include <cmath>

#include "trireme/cli/bench/sizes.h"

namespace trireme::cli::bench {
namespace {

constexpr const char* kMethod =
    "a call's time is that of its slowest rank; every rank rewrites its input before each call and all start "
    "together; a round is the median of its calls, a figure the median of the rounds, which alternate "
    "between the sides; ratios are quartiles of theirs / ours per round";

std::string time_text(double us) {
  if (us < 1000) return fmt::format("{:.{}f} us", us, us < 10 ? 2 : us < 100 ? 1 : 0);
  if (us < 1e6) return fmt::format("{:.{}f} ms", us * 1e-3, us < 1e4 ? 2 : us < 1e5 ? 1 : 0);
  return fmt::format("{:.2f} s", us * 1e-6);
}

// Half of the distance between the quartiles, as a share of the median.
std::string spread_text(const measure::Timing& t) {
  if (t.median_us <= 0) return "";
  return fmt::format("+-{:.0f}%", 50 * (t.high_us - t.low_us) / t.median_us);
}

std::string times_text(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0);
}

std::string ratio_text(const std::optional<measure::Ratio>& r) {
  if (!r) return "-";
  return fmt::format("{}x ({}-{})", times_text(r->median), times_text(r->low), times_text(r->high));
}

bool has(const measure::BenchOptions& o, const char* side) {
  return std::find(o.against.begin(), o.against.end(), side) != o.against.end();
}

double fraction_of_bound(const measure::BenchRow& r) {
  return r.ours.median_us > 0 ? r.bound_us / r.ours.median_us : 0;
}

struct GoalRule {
  const char* transport;
  const char* peer;  // null: the bound, where every rank has a link of its own
  double least;
  std::uint64_t from, below;  // bytes
  const char* text;
};
constexpr std::uint64_t kMega = 1U << 20;
constexpr GoalRule kGoals[] = {
    {"shm", "mpi", 1.0, 0, kMega, ">= 1.0x Open MPI below 1 MB"},
    {"shm", "mpi", 2.0, kMega, 16 * kMega, ">= 2.0x Open MPI from 1 MB"},
    {"shm", "mpi", 3.0, 16 * kMega, UINT64_MAX, ">= 3.0x Open MPI from 16 MB"},
    {"tcp", "gloo", 1.0, 0, UINT64_MAX, ">= 1.0x Gloo at every size"},
    {"tcp", nullptr, 0.9, kMega, UINT64_MAX, ">= 90 % of the bound from 1 MB"},
};

// What a rule is about: theirs / ours, or bound / ours.
std::optional<measure::Ratio> value_for(const GoalRule& rule, const measure::BenchRow& r) {
  if (rule.peer != nullptr) return std::string_view(rule.peer) == "mpi" ? r.mpi_ratio : r.gloo_ratio;
  if (r.ours.low_us <= 0) return std::nullopt;
  return measure::Ratio{r.bound_us / r.ours.median_us, r.bound_us / r.ours.high_us,
                        r.bound_us / r.ours.low_us};
}

Json timing_json(const std::optional<measure::Timing>& t, double measure::Timing::*value) {
  return t ? Json((*t).*value) : Json();
}

Json row_json(const measure::BenchRow& r, const measure::BenchOptions& o) {
  const std::optional<measure::Timing> ours = r.ours;
  Json j = {{"collective", collective::kind_name(r.kind)},
            {"world", r.world},
            {"bytes", r.bytes},
            {"transport", r.transport},
            {"algorithm", r.algorithm},
            {"ours_us", r.ours.median_us},
            {"mpi_us", timing_json(r.mpi, &measure::Timing::median_us)},
            {"gloo_us", timing_json(r.gloo, &measure::Timing::median_us)},
            {"predicted_us", r.predicted_us},
            {"bound_us", r.bound_us},
            {"bound_fraction", fraction_of_bound(r)},
            {"in_place", o.in_place},
            {"buffers", o.own.shared_buffers ? "shared" : "heap"},
            {"oversubscribed", r.oversubscribed},
            {"mpi_setting", r.mpi_setting},
            {"crossing_ns", r.crossing_ns.empty() ? Json() : Json(measure::quantile(r.crossing_ns, 0.5))}};
  const std::pair<const char*, const std::optional<measure::Timing>*> sides[] = {
      {"ours", &ours}, {"mpi", &r.mpi}, {"gloo", &r.gloo}};
  for (const auto& [name, timing] : sides) {
    j[fmt::format("{}_low_us", name)] = timing_json(*timing, &measure::Timing::low_us);
    j[fmt::format("{}_high_us", name)] = timing_json(*timing, &measure::Timing::high_us);
    j[fmt::format("{}_calls", name)] = *timing ? Json((*timing)->calls) : Json();
  }
  const std::pair<const char*, const std::optional<measure::Ratio>*> ratios[] = {{"mpi", &r.mpi_ratio},
                                                                                 {"gloo", &r.gloo_ratio}};
  for (const auto& [name, ratio] : ratios) {
    j[fmt::format("{}_ratio", name)] = *ratio ? Json((*ratio)->median) : Json();
    j[fmt::format("{}_ratio_low", name)] = *ratio ? Json((*ratio)->low) : Json();
    j[fmt::format("{}_ratio_high", name)] = *ratio ? Json((*ratio)->high) : Json();
  }
  return j;
}

std::string goal_line(const Goal& g) {
  std::string line = fmt::format("goal {}: met {} of {}", g.text, g.met, g.total);
  if (g.met < g.total)
    line += fmt::format(", worst {} at {}; {} beyond the spread",
                        g.is_share ? fmt::format("{:.0f} %", 100 * g.worst) : fmt::format("{:.2f}x", g.worst),
                        g.worst_at,
                        g.missed_beyond_spread == 0 ? "none" : std::to_string(g.missed_beyond_spread));
  return line;
}

// "near cores (0.1 us across, 60 % of the rounds), mpi/ours: 1 KB 2.2x, 4 KB 1.4x"
std::string distance_lines(const measure::Report& report) {
  std::string text;
  for (const Distance& d : by_distance(report.rows)) {
    std::string mpi, gloo;
    for (const Distance::Entry& e : d.entries) {
      const std::string size = short_bytes(report.rows[e.row].bytes);
      if (e.mpi_ratio > 0)
        mpi += fmt::format("{}{} {}x", mpi.empty() ? "" : ", ", size, times_text(e.mpi_ratio));
      if (e.gloo_ratio > 0)
        gloo += fmt::format("{}{} {}x", gloo.empty() ? "" : ", ", size, times_text(e.gloo_ratio));
    }
    text += fmt::format("cores {} ({} apart, {:.0f} % of the rounds)", d.name,
                        time_text(d.crossing_ns * 1e-3), 100 * d.share);
    if (!mpi.empty()) text += "; mpi/ours: " + mpi;
    if (!gloo.empty()) text += "; gloo/ours: " + gloo;
    text += "\n";
  }
  return text;
}

Json distances_json(const measure::Report& report) {
  Json all = Json::array();
  for (const Distance& d : by_distance(report.rows)) {
    Json entries = Json::array();
    for (const Distance::Entry& e : d.entries)
      entries.push_back({{"bytes", report.rows[e.row].bytes},
                         {"ours_us", e.ours_us},
                         {"mpi_ratio", e.mpi_ratio > 0 ? Json(e.mpi_ratio) : Json()},
                         {"gloo_ratio", e.gloo_ratio > 0 ? Json(e.gloo_ratio) : Json()}});
    all.push_back({{"cores", d.name}, {"crossing_ns", d.crossing_ns}, {"share", d.share}, {"rows", entries}});
  }
  return all;
}

}  // namespace

std::string table_header(const measure::BenchOptions& o) {
  std::string line =
      fmt::format("{:>5} {:>8}  {:<14} {:>9} {:>6}", "world", "bytes", "algorithm", "ours", "");
  if (has(o, "mpi")) line += fmt::format(" {:>9} {:>18}", "mpi", "mpi/ours");
  if (has(o, "gloo")) line += fmt::format(" {:>9} {:>18}", "gloo", "gloo/ours");
  return line + fmt::format(" {:>9} {:>9} {:>6}\n", "predicted", "bound", "of it");
}

std::string table_row(const measure::BenchRow& r, const measure::BenchOptions& o) {
  std::string line = fmt::format("{:>5} {:>8}  {:<14} {:>9} {:>6}", r.world, short_bytes(r.bytes),
                                 r.algorithm, time_text(r.ours.median_us), spread_text(r.ours));
  if (has(o, "mpi"))
    line += fmt::format(" {:>9} {:>18}", r.mpi ? time_text(r.mpi->median_us) : "-", ratio_text(r.mpi_ratio));
  if (has(o, "gloo"))
    line +=
        fmt::format(" {:>9} {:>18}", r.gloo ? time_text(r.gloo->median_us) : "-", ratio_text(r.gloo_ratio));
  line += fmt::format(" {:>9} {:>9} {:>5.0f}%", time_text(r.predicted_us), time_text(r.bound_us),
                      100 * fraction_of_bound(r));
  if (!r.mpi_setting.empty() && r.mpi_setting != "default") line += fmt::format("  mpi: {}", r.mpi_setting);
  if (r.oversubscribed) line += "  more ranks than cores";
  return line + "\n";
}

std::vector<Goal> check_goals(const std::vector<measure::BenchRow>& rows, bool own_links) {
  std::vector<Goal> goals;
  for (const GoalRule& rule : kGoals) {
    Goal goal;
    goal.text = rule.text;
    goal.is_share = rule.peer == nullptr;
    for (const measure::BenchRow& r : rows) {
      const std::optional<measure::Ratio> value = value_for(rule, r);
      if (r.kind != collective::Kind::kAllreduce || r.transport != rule.transport || !value ||
          goal.is_share != own_links || (r.oversubscribed && !own_links) || r.bytes < rule.from ||
          r.bytes >= rule.below)
        continue;
      if (value->median >= rule.least) ++goal.met;
      if (value->high < rule.least) ++goal.missed_beyond_spread;
      if (goal.total++ == 0 || value->median < goal.worst) {
        goal.worst = value->median;
        goal.worst_at = fmt::format("{}, P={}", short_bytes(r.bytes), r.world);
      }
    }
    if (goal.total > 0) goals.push_back(std::move(goal));
  }
  return goals;
}

PredictionError prediction_error(const std::vector<measure::BenchRow>& rows) {
  std::vector<double> errors;
  for (const measure::BenchRow& r : rows)
    if (r.ours.median_us > 0) errors.push_back(std::abs(r.predicted_us / r.ours.median_us - 1));
  if (errors.empty()) return {};
  return {measure::quantile(errors, 0.5), measure::quantile(errors, 0.9)};
}

std::string table_footer(const measure::Report& report, const measure::BenchOptions& o,
                         const std::string& models) {
  std::string text;
  for (const measure::Absent& a : report.absent)
    text += fmt::format("{} is absent at world {}: {}\n", a.side, a.world, a.reason);
  const PredictionError e = prediction_error(report.rows);
  text += fmt::format(
      "{} over {}, {}, {} buffers; models: {}; prediction error: median {:.0f} %, 90 % within {:.0f} %\n",
      collective::kind_name(o.kind), o.own.transport, o.in_place ? "in place" : "out of place",
      o.own.shared_buffers ? "shared" : "heap", models, 100 * e.median, 100 * e.p90);
  std::vector<double> crossings;
  for (const measure::BenchRow& r : report.rows)
    crossings.insert(crossings.end(), r.crossing_ns.begin(), r.crossing_ns.end());
  if (!crossings.empty())
    text += fmt::format("the start line was crossed in {} (median), {} to {}\n",
                        time_text(measure::quantile(crossings, 0.5) * 1e-3),
                        time_text(measure::quantile(crossings, 0.05) * 1e-3),
                        time_text(measure::quantile(crossings, 0.95) * 1e-3));
  text += distance_lines(report);
  for (const Goal& g : check_goals(report.rows, o.own_links)) text += goal_line(g) + "\n";
  return text;
}

Json to_json(const measure::Report& report, const measure::BenchOptions& o, const std::string& models) {
  Json rows = Json::array(), absent = Json::array(), goals = Json::array();
  for (const measure::BenchRow& r : report.rows) rows.push_back(row_json(r, o));
  for (const measure::Absent& a : report.absent)
    absent.push_back({{"side", a.side}, {"world", a.world}, {"reason", a.reason}});
  for (const Goal& g : check_goals(report.rows, o.own_links))
    goals.push_back({{"goal", g.text},
                     {"met", g.met},
                     {"of", g.total},
                     {"missed_beyond_spread", g.missed_beyond_spread},
                     {"worst", g.worst},
                     {"worst_at", g.worst_at}});
  const PredictionError e = prediction_error(report.rows);
  return {{"rows", rows},
          {"absent", absent},
          {"goals", goals},
          {"distances", distances_json(report)},
          {"prediction_error", {{"median", e.median}, {"p90", e.p90}}},
          {"models", models},
          {"cores", o.cores},
          {"rounds", o.repeats},
          {"method", kMethod}};
}

}  // namespace trireme::cli::bench
