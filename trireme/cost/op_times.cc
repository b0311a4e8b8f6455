#include "trireme/cost/op_times.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace trireme::cost {
namespace {

// The end of every key; efficiencies of other threads are others.
std::string threads_text(int threads) { return fmt::format("|{} threads", threads); }

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

OpCost cost_of(const OpTime& time) { return {.flops = time.flops, .bytes = time.bytes}; }

Result<OpTime> time_from_json(const Json& row) {
  OpTime time;
  TR_ASSIGN_OR_RETURN(time.family, json_get<std::string>(row, "family"));
  TR_ASSIGN_OR_RETURN(time.seconds, json_get<double>(row, "seconds"));
  TR_ASSIGN_OR_RETURN(time.spread, json_get<double>(row, "spread"));
  TR_ASSIGN_OR_RETURN(time.runs, json_get<int>(row, "runs"));
  TR_ASSIGN_OR_RETURN(time.flops, json_get<double>(row, "flops"));
  TR_ASSIGN_OR_RETURN(time.bytes, json_get<double>(row, "bytes"));
  const bool fine = std::isfinite(time.seconds) && time.seconds >= 0 && time.spread >= 0 && time.runs >= 1 &&
                    time.flops >= 0 && time.bytes >= 0 && !time.family.empty();
  if (!fine) return error(Code::kInvalid, "[cost] a time is negative, no number, or of no run");
  return time;
}

Status take_entry(const Json& row, OpTimes& times) {
  TR_ASSIGN_OR_RETURN(std::string node, json_get<std::string>(row, "node"));
  TR_ASSIGN_OR_RETURN(const int at_once, json_get<int>(row, "at_once"));
  TR_ASSIGN_OR_RETURN(OpTime time, time_from_json(row));
  if (at_once < 1) return error(Code::kInvalid, "[cost] at_once is {}: expected 1 or more", at_once);
  if (times.find(node, at_once) != nullptr) return error(Code::kInvalid, "[cost] '{}' is there twice", node);
  times.put(std::move(node), at_once, std::move(time));
  return {};
}

}  // namespace

Work joined(const Work& work) {
  std::map<std::string, NodeWork> by_key;
  for (const NodeWork& one : work) {
    const auto [at, added] = by_key.try_emplace(one.key, one);
    if (!added) at->second.count += one.count;
    at->second.node.clear();
  }
  Work out;
  for (auto& [key, one] : by_key) out.push_back(std::move(one));
  return out;
}

const OpTime* OpTimes::find(const std::string& key, int at_once) const {
  const auto at = entries_.find({key, at_once});
  return at != entries_.end() ? &at->second : nullptr;
}

const OpTime* OpTimes::find_near(const std::string& key, int at_once) const {
  const OpTime* nearest = nullptr;
  int distance = 0;
  for (auto at = entries_.lower_bound({key, 0}); at != entries_.end() && at->first.node == key; ++at) {
    const int away = std::abs(at->first.at_once - at_once);
    if (nearest != nullptr && away >= distance) continue;
    nearest = &at->second;
    distance = away;
  }
  return nearest;
}

void OpTimes::put(std::string key, int at_once, OpTime time) {
  entries_.insert_or_assign({std::move(key), at_once}, std::move(time));
}

double roofline_seconds(const OpCost& cost, const MachineModel& machine, int threads) {
  MachineModel full = machine;
  full.speed = 1;
  return to_seconds(compute_time(cost, full, threads));
}

std::string strand_key(int threads) { return kStrandFamily + threads_text(threads); }

std::vector<FamilyEfficiency> efficiencies(const OpTimes& times, int at_once, const MachineModel& machine,
                                           int threads) {
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, double> seconds;
  for (const auto& [key, time] : times.entries()) {
    if (key.at_once != at_once || time.family == kStrandFamily) continue;
    if (!key.node.ends_with(threads_text(threads))) continue;
    ratios[time.family].push_back(time.seconds / roofline_seconds(cost_of(time), machine, threads));
    seconds[time.family] += time.seconds;
  }
  std::vector<FamilyEfficiency> out;
  for (auto& [family, all] : ratios)
    out.push_back({family, static_cast<int>(all.size()), seconds[family], median(std::move(all))});
  std::stable_sort(out.begin(), out.end(), [](const FamilyEfficiency& a, const FamilyEfficiency& b) {
    return a.seconds > b.seconds;
  });
  return out;
}

WorkSeconds work_seconds(const Work& work, int strands, const OpTimes& times, int at_once,
                         const MachineModel& machine, int threads) {
  WorkSeconds out;
  std::vector<FamilyEfficiency> families;  // when the first node was not measured
  for (const NodeWork& one : work) {
    if (const OpTime* time = times.find(one.key, at_once)) {
      out.seconds += one.count * time->seconds;
      out.measured += one.count * time->seconds;
      continue;
    }
    if (const OpTime* time = times.find_near(one.key, at_once)) {
      out.seconds += one.count * time->seconds;
      continue;
    }
    if (families.empty()) families = efficiencies(times, at_once, machine, threads);
    const auto family =
        std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.family == one.family; });
    const double plain = roofline_seconds(one.cost, machine, threads);
    out.seconds += one.count * (family != families.end() ? family->efficiency * plain
                                                         : plain - to_seconds(machine.op_overhead_ns));
  }
  const OpTime* strand = times.find_near(strand_key(threads), at_once);
  const double between = strand != nullptr ? strand->seconds : to_seconds(machine.op_overhead_ns);
  // What passes between nodes counts as these do.
  if (strand != nullptr && out.seconds > 0) out.measured += strands * between * (out.measured / out.seconds);
  out.seconds += strands * between;
  out.seconds /= machine.speed;
  out.measured /= machine.speed;
  return out;
}

Json to_json(const OpTimes& times) {
  Json entries = Json::array();
  for (const auto& [key, time] : times.entries())
    entries.push_back({{"node", key.node},
                       {"at_once", key.at_once},
                       {"family", time.family},
                       {"seconds", time.seconds},
                       {"spread", time.spread},
                       {"runs", time.runs},
                       {"flops", time.flops},
                       {"bytes", time.bytes}});
  return {{"processor", times.processor}, {"entries", std::move(entries)}};
}

OpTimes op_times_from_json(const Json& json, std::vector<std::string>& ignored) {
  OpTimes times;
  const Result<std::string> processor = json_get<std::string>(json, "processor");
  const Result<Json> entries = json_get<Json>(json, "entries");
  if (!processor.ok() || !entries.ok() || !entries->is_array()) {
    ignored.emplace_back("the op times are no list with a processor");
    return times;
  }
  times.processor = *processor;
  std::size_t number = 0;
  for (const Json& row : *entries) {
    if (const Status status = take_entry(row, times); !status.ok())
      ignored.push_back(fmt::format("op time {}: {}", number, status.message()));
    ++number;
  }
  return times;
}

}  // namespace trireme::cost
