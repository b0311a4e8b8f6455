#include "trireme/cli/bench/train_report.h"

#include <algorithm>

namespace trireme::cli::bench {
namespace {

std::string ms_text(double ms) { return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 1000 ? 1 : 0); }

std::string half_spread(const measure::StepTiming& t) {
  return fmt::format("{}+-{:.0f}%", ms_text(t.median_ms), 50 * (t.high_ms - t.low_ms) / t.median_ms);
}

std::string time_text(const std::optional<measure::StepTiming>& t) { return t ? half_spread(*t) : "-"; }

std::string mib_text(std::optional<std::int64_t> bytes) {
  return bytes ? fmt::format("{:.0f}", static_cast<double>(*bytes) / (1 << 20)) : "-";
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json ms_or_null(const std::optional<measure::StepTiming>& t) { return t ? Json(t->median_ms) : Json(); }

Json rounds_of(const measure::StepTiming& t) {
  return {
      {"low_ms", t.low_ms}, {"high_ms", t.high_ms}, {"rounds_ms", t.rounds_ms}, {"peak_bytes", t.peak_bytes}};
}

// Tells the gaps in steps that are captured and not waited for, beside the profiled ones above it.
std::string gaps_text(const measure::TrainRow& row) {
  if (!row.gaps.is_object()) return "";
  const double busy = row.gaps.value("busy_ms", 0.0), idle = row.gaps.value("idle_ms", 0.0),
               launches = row.gaps.value("launches", 0.0), launch_us = row.gaps.value("launch_us", 0.0);
  const double all = std::max(busy + idle, 1e-9);
  return fmt::format(
      "  not profiled: {} ms a step on the GPU; it waits for the host {} ms, {:.2f} %; gaps of {:.0f} "
      "launches at most {:.2f} us each, {:.2f} %\n",
      ms_text(all), ms_text(idle), 100 * idle / all, launches, launch_us,
      100 * launches * launch_us * 1e-3 / all);
}

}  // namespace

std::string train_table_header() {
  return fmt::format("{:<9} {:<5} {:>3} {:>14} {:>14} {:>14} {:>18} {:>8} {:>9} {:>9}\n", "workload", "dtype",
                     "thr", "ours ms", "torch eager", "torch compile", "ratio", "ceiling", "ours MiB",
                     "torch MiB");
}

std::string train_table_row(const measure::TrainRow& row, int threads) {
  std::string ratio = "-";
  if (const auto r = row.ratio()) {
    ratio = fmt::format("{:.2f}x", *r);
    if (const auto spread = row.ratio_spread())
      ratio += fmt::format(" ({:.2f}-{:.2f})", spread->first, spread->second);
  }
  const auto ceiling = row.ceiling();
  return fmt::format("{:<9} {:<5} {:>3} {:>14} {:>14} {:>14} {:>18} {:>8} {:>9} {:>9}\n", row.workload->name,
                     row.dtype, threads, row.ours.rounds_ms.empty() ? "-" : half_spread(row.ours),
                     time_text(row.eager), time_text(row.compile), ratio,
                     ceiling ? fmt::format("{:.2f}x", *ceiling) : "-", mib_text(row.ours.peak_bytes),
                     mib_text(row.torch_peak_bytes()));
}

std::string profile_text(const measure::TrainRow& row) {
  if (!row.profile.is_object()) return "";
  const Json& p = row.profile;
  const double step = p.value("step_ms", 1.0);
  const auto part = [&](std::string_view name, double ms) {
    return fmt::format("  {:<34} {:>10} ms {:>6.1f} %\n", name, ms_text(ms), 100 * ms / step);
  };
  std::string text = fmt::format("{} {}: {} ms a step, {} nodes\n", row.workload->name, row.dtype,
                                 ms_text(step), p.value("nodes", 0));
  const auto line = [&](const Json& op) {
    return fmt::format(
        "  {:<34} {:>10} ms {:>6.1f} %  {:>8.1f} GFLOP/s {:>7.1f} GB/s  {}\n",
        fmt::format("{} x {} ({})", op.value("nodes", 0), op.value("op", ""), op.value("kernel", "")),
        ms_text(op.value("ms", 0.0)), 100 * op.value("ms", 0.0) / step, op.value("gflops", 0.0),
        op.value("gbytes_per_second", 0.0), op.value("types", ""));
  };
  for (const Json& op : p.at("ops")) text += line(op);
  text += part("updates", p.value("update_ms", 0.0));
  text += part("waiting for data", p.value("data_ms", 0.0));
  text += part("around the kernels", p.value("overhead_ms", 0.0));
  text += gaps_text(row);
  text += "  memory, MiB:";
  for (const auto& [name, bytes] : p.at("memory").items())
    text += fmt::format(" {} {:.0f}", name, bytes.get<double>() / (1 << 20));
  text += "\n  by types, the slowest:\n";
  for (const Json& kind : p.at("kinds")) text += line(kind);
  return text;
}

std::string kernels_text(const measure::TrainRow& row) {
  if (!row.kernels.is_object()) return "";
  const Json& k = row.kernels;
  std::string text = fmt::format(
      "{} {}: peak {:.0f} GFLOP/s, stream {:.1f} GB/s; heavy kernels {} ms, other bytes {} ms\n",
      row.workload->name, row.dtype, k.value("peak_gflops", 0.0), k.value("stream_gbytes_per_second", 0.0),
      ms_text(k.value("heavy_ms", 0.0)), ms_text(k.value("other_ms", 0.0)));
  for (const Json& one : k.at("kernels")) {
    std::string others;
    for (const Json& other : one.at("others"))
      others += fmt::format(" {} {}", other.value("kernel", ""), ms_text(other.value("ms", 0.0)));
    text += fmt::format("  {:>3} x {:<22} {:<12} {:>9} ms {:>8.1f} GFLOP/s {:>6.1f} GB/s {:>5.0f} %  {}{}\n",
                        one.value("nodes", 0), one.value("op", ""), one.value("kernel", ""),
                        ms_text(one.value("ms", 0.0)), one.value("gflops", 0.0),
                        one.value("gbytes_per_second", 0.0), 100 * one.value("of_peak", 0.0),
                        one.value("shapes", ""), others.empty() ? "" : " |" + others);
  }
  return text;
}

Json to_json(const measure::TrainRow& row, int threads) {
  Json json{{"workload", row.workload->name},
            {"device", row.device},
            {"dtype", row.dtype},
            {"threads", threads},
            {"batch", row.batch},
            {"ours_ms", row.ours.median_ms},
            {"torch_eager_ms", ms_or_null(row.eager)},
            {"torch_compile_ms", ms_or_null(row.compile)},
            {"ratio", or_null(row.ratio())},
            {"ratio_low", Json()},
            {"ratio_high", Json()},
            {"ceiling", or_null(row.ceiling())},
            {"ours_peak_bytes", row.ours.peak_bytes},
            {"torch_peak_bytes", or_null(row.torch_peak_bytes())},
            {"torch_version", row.torch_version},
            {"ours", rounds_of(row.ours)}};
  if (const auto spread = row.ratio_spread()) {
    json["ratio_low"] = spread->first;
    json["ratio_high"] = spread->second;
  }
  if (row.eager) json["torch_eager"] = rounds_of(*row.eager);
  if (row.compile) json["torch_compile"] = rounds_of(*row.compile);
  if (!row.eager_absent.empty()) json["torch_eager_absent"] = row.eager_absent;
  if (!row.compile_absent.empty()) json["torch_compile_absent"] = row.compile_absent;
  if (row.kernels.is_object()) json["kernels"] = row.kernels;
  if (row.profile.is_object()) json["profile"] = row.profile;
  if (row.gaps.is_object()) json["gaps"] = row.gaps;
  return json;
}

}  // namespace trireme::cli::bench
