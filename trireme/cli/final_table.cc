#include "trireme/cli/final_table.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/units.h"

namespace trireme::cli {
namespace {

// Replicas further apart than this share of the weights' length rarely have a good mean.
constexpr double kLargeDrift = 0.1;
constexpr double kSmallDrift = 5e-4;  // not worth a line
constexpr int kMostWorkers = 32;      // rows; the rest is in summary.json
constexpr int kMostBars = 16;         // rows of the histogram
constexpr int kBarCells = 30;

std::string seconds(double s) { return format_duration(from_seconds(s)); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string head_line(const Json& s) {
  std::string text = fmt::format("{} workers", s.value("workers", 0));
  if (const int servers = s.value("servers", 0); servers > 0)
    text += fmt::format(", {} server{}", servers, servers == 1 ? "" : "s");
  const std::string codec = s.value("codec", "none");
  text += fmt::format(", {}{} over {}: {} samples/s", s.value("agreement", ""),
                      codec == "none" ? "" : fmt::format(" with codec {}", codec), s.value("transport", ""),
                      format_count(s.value("samples_per_second", 0.0)));
  if (const auto scaling = s.find("scaling_efficiency"); scaling != s.end() && scaling->is_number())
    text += fmt::format(", scaling efficiency {} (one worker {})", percent(scaling->get<double>()),
                        s.value("scaling_efficiency_from", ""));
  text += fmt::format(", communication efficiency {}\n", percent(s.value("communication_efficiency", 0.0)));
  const double measured = s.value("measured_step_seconds", 0.0),
               predicted = s.value("predicted_step_seconds", 0.0);
  if (measured > 0 && predicted > 0)
    text += fmt::format("step {} measured, {} predicted ({:+.0f} %, {}); {} sent per step and worker\n",
                        seconds(measured), seconds(predicted), 100 * (predicted / measured - 1),
                        s.value("device", "cpu") == "cuda" ? "by the GPU's own figures"
                        : s.value("calibrated", false)     ? "calibrated"
                                                           : "not calibrated: run trireme calibrate",
                        format_bytes(static_cast<std::uint64_t>(s.value("bytes_sent_per_step", 0.0))));
  return text;
}

std::string worker_rows(const Json& workers) {
  if (workers.empty()) return "";
  std::string text = fmt::format("{:>6} {:>9} {:>10} {:>10} {:>10} {:>9} {:>10} {:>10}\n", "worker", "steps",
                                 "compute", "exposed", "waiting", "for rank", "data", "sent");
  int shown = 0;
  for (const Json& w : workers) {
    if (++shown > kMostWorkers) break;
    const Json who = w.value("waits_for", Json());
    text +=
        fmt::format("{:>6} {:>9} {:>10} {:>10} {:>10} {:>9} {:>10} {:>10}{}\n", w.value("worker", 0),
                    w.value("steps", std::int64_t{0}), seconds(w.value("compute_seconds", 0.0)),
                    seconds(w.value("exposed_comm_seconds", 0.0)), seconds(w.value("waiting_seconds", 0.0)),
                    who.is_null() ? "-" : who.dump(), seconds(w.value("data_wait_seconds", 0.0)),
                    format_bytes(static_cast<std::uint64_t>(w.value("bytes_sent", 0.0))),
                    w.value("lost", false) ? "  lost" : "");
  }
  if (shown > kMostWorkers)
    text += fmt::format("   and {} more, in summary.json\n", workers.size() - kMostWorkers);
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
    for (const char* own : (*row)->keys)
      if (std::string_view(own) == key) return fmt::format("; try a smaller parallel.{}", key);
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

std::string final_table(const Json& s) {
  if (s.value("workers", 1) < 2) return "";
  std::string text = head_line(s) + worker_rows(s.value("per_worker", Json::array())) +
                     staleness_rows(s.value("staleness", Json::object())) + drift_line(s);
  if (const Json lost = s.value("lost_workers", Json::array()); !lost.empty())
    text += fmt::format("lost on the way: worker{} {}\n", lost.size() == 1 ? "" : "s", list_of(lost));
  return text;
}

}  // namespace trireme::cli
