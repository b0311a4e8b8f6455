#include "trireme/cli/final_table.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/units.h"

namespace trireme::cli {
namespace {

// What a prediction is made of, and what would make it better.
const char* made_of(const Json& s) {
  constexpr double kNearlyAll = 0.95;
  if (s.value("device", "cpu") == "cuda") return "by the GPU's own figures";
  if (!s.value("calibrated", false)) return "not calibrated: run trireme calibrate";
  if (!s.contains("predicted_measured_fraction")) return "calibrated";
  return s["predicted_measured_fraction"].get<double>() >= kNearlyAll
             ? "calibrated, op times measured"
             : "calibrated; op times not measured: trireme calibrate JOB measures them";
}

// Replicas further apart than this fraction of the weights' length rarely have a good mean.
constexpr double kLargeDrift = 0.1;
constexpr double kSmallDrift = 5e-4;  // not worth a line
constexpr int kMostWorkers = 32;      // rows; the rest is in summary.json
constexpr int kMostBars = 16;         // rows of the histogram
constexpr int kBarCells = 30;

std::string seconds(double s) { return format_duration(from_seconds(s)); }
std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string head_line(const Json& s) {
  std::string text = fmt::format("{} workers", s.value("workers", 0));
  if (const int servers = s.value("servers", 0); servers > 0)
    text += fmt::format(", {} server{}", servers, servers == 1 ? "" : "s");
  const std::string codec = s.value("codec", "none");
  text += fmt::format(", {}{} over {}: {} samples/s", s.value("agreement", ""),
                      codec.empty() || codec == "none" ? "" : fmt::format(" with codec {}", codec),
                      s.value("transport", ""), format_count(s.value("samples_per_second", 0.0)));
  if (const auto scaling = s.find("scaling_efficiency"); scaling != s.end() && scaling->is_number())
    text += fmt::format(", scaling efficiency {} (one worker {})", percent(scaling->get<double>()),
                        s.value("scaling_efficiency_from", ""));
  text += fmt::format(", communication efficiency {}\n", percent(s.value("communication_efficiency", 0.0)));
  const double measured = s.value("measured_step_seconds", 0.0),
               predicted = s.value("predicted_step_seconds", 0.0);
  if (measured > 0 && predicted > 0)
    text += fmt::format("step {} measured, {} predicted ({:+.0f} %, {}); {} sent per step and worker\n",
                        seconds(measured), seconds(predicted), 100 * (predicted / measured - 1), made_of(s),
                        format_bytes(static_cast<std::uint64_t>(s.value("bytes_sent_per_step", 0.0))));
  return text;
}

struct Column {
  const char* title;
  std::string (*cell)(const Json& worker);
  int spared;                  // the highest goes first where the table is wider than the terminal; 0: never
  const char* only = nullptr;  // workers that have this field have the column
};
constexpr Column kColumns[] = {
    {"worker", [](const Json& w) { return fmt::format("{}", w.value("worker", 0)); }, 0},
    {"stage", [](const Json& w) { return fmt::format("{}", w.value("stage", 0)); }, 0, "stage"},
    {"bubble", [](const Json& w) { return percent(w.value("bubble_fraction", 0.0)); }, 0, "stage"},
    {"steps", [](const Json& w) { return fmt::format("{}", w.value("steps", std::int64_t{0})); }, 3},
    {"compute", [](const Json& w) { return seconds(w.value("compute_seconds", 0.0)); }, 0},
    {"exposed", [](const Json& w) { return seconds(w.value("exposed_comm_seconds", 0.0)); }, 1},
    {"waiting", [](const Json& w) { return seconds(w.value("waiting_seconds", 0.0)); }, 2},
    {"for rank",
     [](const Json& w) {
       const Json who = w.value("waits_for", Json());
       return who.is_null() ? std::string("-") : who.dump();
     },
     5},
    {"data", [](const Json& w) { return seconds(w.value("data_wait_seconds", 0.0)); }, 6},
    {"sent",
     [](const Json& w) { return format_bytes(static_cast<std::uint64_t>(w.value("bytes_sent", 0.0))); }, 4},
};
constexpr std::size_t kNumColumns = std::size(kColumns);

// Columns are as wide as their widest cell. What a narrow terminal has no room for is in summary.json.
std::string worker_rows(const Json& workers, int columns) {
  if (workers.empty()) return "";
  const std::size_t shown = std::min<std::size_t>(workers.size(), kMostWorkers);
  std::size_t widths[kNumColumns];
  for (std::size_t c = 0; c < kNumColumns; ++c) {
    widths[c] = std::string_view(kColumns[c].title).size();
    for (std::size_t w = 0; w < shown; ++w)
      widths[c] = std::max(widths[c], kColumns[c].cell(workers[w]).size());
  }
  bool some_lost = false;
  for (std::size_t w = 0; w < shown; ++w) some_lost = some_lost || workers[w].value("lost", false);
  constexpr std::size_t kGap = 2, kLost = 6;
  const auto is_shown = [&](std::size_t c, int spared) {
    return kColumns[c].spared < spared &&
           (kColumns[c].only == nullptr || workers[0].contains(kColumns[c].only));
  };
  const auto width_with = [&](int spared) {
    std::size_t width = some_lost ? kLost : 0;
    for (std::size_t c = 0; c < kNumColumns; ++c)
      if (is_shown(c, spared)) width += widths[c] + kGap;
    return width - kGap;
  };
  int spared = kNumColumns;
  while (columns > 0 && spared > 1 && width_with(spared) > static_cast<std::size_t>(columns)) --spared;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < kNumColumns; ++c)
      if (is_shown(c, spared))
        text += fmt::format("{:>{}}", cell_of(kColumns[c]), widths[c] + (text.empty() ? 0 : kGap));
    return text;
  };
  std::string text = line([](const Column& c) { return std::string(c.title); }) + "\n";
  for (std::size_t w = 0; w < shown; ++w)
    text += line([&](const Column& c) { return c.cell(workers[w]); }) +
            (workers[w].value("lost", false) ? "  lost\n" : "\n");
  if (workers.size() > shown)
    text += fmt::format("   and {} more, in summary.json\n", workers.size() - shown);
  return text;
}

std::string staleness_rows(const Json& staleness) {
  const Json histogram = staleness.value("histogram", Json::object());
  std::vector<std::pair<std::int64_t, double>> bars;
  double most = 0, all = 0;
  for (const auto& [clocks, updates] : histogram.items()) {
    bars.emplace_back(std::atoll(clocks.c_str()), updates.get<double>());
    most = std::max(most, bars.back().second);
    all += bars.back().second;
  }
  if (bars.empty() || (bars.size() == 1 && bars[0].first == 0)) return "";
  std::sort(bars.begin(), bars.end());
  std::string text = fmt::format("staleness of updates: mean {:.2f}, at most {} clocks\n",
                                 staleness.value("mean", 0.0), staleness.value("max", std::int64_t{0}));
  int shown = 0;
  for (const auto& [clocks, updates] : bars) {
    if (++shown > kMostBars) break;
    const int cells = static_cast<int>(updates / most * kBarCells + 0.5);
    text += fmt::format("{:>6}  {:<{}} {}\n", clocks, std::string(static_cast<std::size_t>(cells), '#'),
                        kBarCells, percent(updates / all));
  }
  if (shown > kMostBars) text += fmt::format("   and {} more, in summary.json\n", bars.size() - kMostBars);
  return text;
}

std::string list_of(const Json& numbers) {
  std::string text;
  for (const Json& n : numbers) text += (text.empty() ? "" : ", ") + n.dump();
  return text;
}

// The key that brings replicas of this rule closer together.
std::string advice(const std::string& agreement) {
  const auto row = agree::find_agreement(agreement);
  if (!row.ok()) return "";
  for (const char* key : {"period", "staleness", "fetch_steps", "push_steps"})
    if (find_option((*row)->options, key) != nullptr) return fmt::format("; try a smaller parallel.{}", key);
  return "; try another parallel.agreement, or a smaller train.optimizer.lr";
}

std::string drift_line(const Json& s) {
  const double drift = s.value("drift", 0.0);
  if (drift < kSmallDrift) return "";
  std::string text =
      fmt::format("drift: replicas are {} of the weights' length away from their mean\n", percent(drift));
  if (drift > kLargeDrift)
    text += fmt::format("warning: replicas have drifted apart{}\n", advice(s.value("agreement", "")));
  return text;
}

}  // namespace

std::string pipeline_lines(const Json& s) {
  if (!s.contains("pipeline")) return "";
  const int micro_batches = s.value("micro_batches", 0);
  std::string text = fmt::format("pipeline {}, {} stages, {} micro-batch{}: ", s.value("pipeline", ""),
                                 s.value("stages", 0), micro_batches, micro_batches == 1 ? "" : "es");
  if (s.contains("bubble_fraction"))
    text += fmt::format("bubble {}, ", percent(s.value("bubble_fraction", 0.0)));
  text += fmt::format("{} predicted\n", percent(s.value("predicted_bubble_fraction", 0.0)));
  const auto slow = s.find("slow_stage");
  if (slow == s.end() || !slow->is_number()) return text;
  auto busy = s.value("stage_seconds", std::vector<double>());
  const auto at = busy.begin() + slow->get<std::ptrdiff_t>();
  const double own = *at;
  busy.erase(at);
  return text +
         fmt::format(
             "stage {} is slow: it computes for {} in a step, the others for {} at most; give it fewer "
             "layers (parallel.stage_cuts), or a faster machine\n",
             slow->dump(), seconds(own), seconds(*std::max_element(busy.begin(), busy.end())));
}

std::string final_table(const Json& s, int columns) {
  if (s.value("workers", 1) < 2) return "";
  std::string text = head_line(s) + pipeline_lines(s) +
                     worker_rows(s.value("per_worker", Json::array()), columns) +
                     staleness_rows(s.value("staleness", Json::object())) + drift_line(s);
  if (const Json lost = s.value("lost_workers", Json::array()); !lost.empty())
    text += fmt::format("lost on the way: worker{} {}\n", lost.size() == 1 ? "" : "s", list_of(lost));
  return text;
}

}  // namespace trireme::cli
