#include "trireme/measure/ops/op_times.h"

#include <algorithm>
#include <atomic>

#include "trireme/measure/link.h"
#include "trireme/measure/ops/place_runs.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

using runtime::Task;
using Samples = SamplesByKey;

// Places that run together: nobody stops before all have enough, so that all have the same company.
struct Together {
  int count = 0;
  std::atomic<int> done = 0;
  std::atomic<bool> failed = false;
};

struct One {
  const prepare::Prepared* prepared = nullptr;
  Samples samples;
  Status status;
};

Task<Status> repeat(runtime::Runtime& rt, GraphsOf which, const OpTimesOptions& options, Together& all,
                    One& out) {
  TR_CO_ASSIGN_OR_RETURN(const std::unique_ptr<PlaceRuns> runs, make_place_runs(rt, *out.prepared, which));
  const TimeNs began = rt.now();
  bool is_done = false;
  for (int run = 0; all.done < all.count && !all.failed; ++run) {
    TR_CO_ASSIGN_OR_RETURN(const auto seconds, co_await runs->run());
    if (run == 0) continue;  // memory is touched, code is loaded
    for (const auto& [key, s] : seconds) out.samples[key].push_back(s);
    const bool enough = run >= options.least_runs && rt.now() - began > options.enough;
    if (is_done || (!enough && run < options.most_runs)) continue;
    is_done = true;
    ++all.done;
  }
  co_return Status();
}

Task<void> keep(Task<Status> task, Together& all, Status& out) {
  out = co_await std::move(task);
  if (!out.ok()) all.failed = true;
}

// Samples of all places, `at_once` of which run at a time.
Result<Samples> run_places(const Places& places, GraphsOf which, const OpTimesOptions& options) {
  Samples samples;
  const auto at_once = static_cast<std::size_t>(options.at_once);
  for (std::size_t first = 0; first < places.size(); first += at_once) {
    std::vector<One> ones(at_once);
    Together all;
    all.count = options.at_once;
    std::vector<std::function<void()>> bodies;
    for (std::size_t i = 0; i < at_once; ++i) {
      ones[i].prepared = places[(first + i) % places.size()].get();
      bodies.push_back([&, i] {
        runtime::RealOptions real;
        real.name = fmt::format("measure {}", i);
        real.compute_threads = std::max(1, ones[i].prepared->plan.shard_threads);
        const auto rt = runtime::make_real_runtime(real);
        rt->run(keep(repeat(*rt, which, options, all, ones[i]), all, ones[i].status));
      });
    }
    runtime::run_in_threads(std::move(bodies));
    for (One& one : ones) {
      TR_RETURN_IF_ERROR(one.status);
      for (auto& [key, seconds] : one.samples)
        samples[key].insert(samples[key].end(), seconds.begin(), seconds.end());
    }
  }
  return samples;
}

// What there is to measure; between the strands of training as well.
NodesByKey all_nodes(const Places& places, GraphsOf which) {
  NodesByKey nodes;
  for (const auto& place : places) nodes.merge(nodes_of(*place, which));
  if (which == GraphsOf::kEvaluation) return nodes;
  cost::NodeWork between;
  between.key = cost::strand_key(places[0]->plan.shard_threads);
  between.family = cost::kStrandFamily;
  nodes.try_emplace(between.key, between);
  return nodes;
}

constexpr double kLeastSteady = 20e-6;  // what takes less varies with every clock reading

}  // namespace

void take_samples(const NodesByKey& nodes, const SamplesByKey& samples, const OpTimesOptions& options,
                  cost::OpTimes& times, OpTimesReport& report) {
  for (const auto& [key, node] : nodes) {
    const auto found = samples.find(key);
    const bool is_known = times.find(key, options.at_once) != nullptr;
    if (found == samples.end() || (is_known && !options.again)) continue;
    const Repeats repeats = summarise_repeats(found->second);
    if (repeats.spread > kSteady && repeats.median > kLeastSteady) {
      report.unsteady.push_back(key);
      if (is_known) continue;
    }
    cost::OpTime time;
    time.family = node.family;
    time.seconds = repeats.median;
    time.spread = repeats.spread;
    time.runs = static_cast<int>(found->second.size());
    time.flops = node.cost.flops;
    time.bytes = node.cost.bytes;
    times.put(key, options.at_once, std::move(time));
    ++report.measured;
  }
}

Result<Places> prepare_places(const job::Job& job, const model::ModelInput& input,
                              prepare::PrepareOptions options) {
  Places places;
  for (int place = 0; place < options.stages * options.tiles; ++place) {
    options.stage = place / options.tiles;
    options.tile = place % options.tiles;
    TR_ASSIGN_OR_RETURN(auto prepared, prepare::prepare(job, input, options));
    if (place == 0 && options.fixed == nullptr)
      options.fixed = std::make_shared<const plan::Plan>(prepared->whole_plan());
    if (prepared->stages != nullptr) options.like = prepared;
    places.push_back(std::move(prepared));
  }
  return places;
}

int runs_at_once(const prepare::Prepared& prepared, const cost::Rates& rates) {
  return rates.ranks_at_once * plan::shards_at_once(prepared.plan, rates);
}

Result<OpTimesReport> measure_op_times(const Places& places, const OpTimesOptions& options,
                                       const cost::MachineModel& machine, cost::OpTimes& times) {
  OpTimesReport report;
  report.at_once = options.at_once;
  report.threads = places[0]->plan.shard_threads;
  NodesByKey nodes;
  TimeNs took = 0;
  for (const GraphsOf which : {GraphsOf::kTraining, GraphsOf::kEvaluation}) {
    NodesByKey own = all_nodes(places, which);
    std::erase_if(own, [&](const auto& node) { return nodes.contains(node.first); });
    const auto is_known = [&](const auto& node) {
      return times.find(node.first, options.at_once) != nullptr;
    };
    const auto known = static_cast<int>(std::count_if(own.begin(), own.end(), is_known));
    report.nodes += static_cast<int>(own.size());
    report.known += known;
    nodes.insert(own.begin(), own.end());
    if (known == static_cast<int>(own.size()) && !options.again) continue;
    options.doing(fmt::format("measuring {} different nodes of {} ...",
                              own.size() - (options.again ? 0 : known),
                              which == GraphsOf::kTraining ? "training" : "evaluation"));
    runtime::RealOptions real;
    real.name = "clock";
    real.compute_threads = 1;
    const auto clock = runtime::make_real_runtime(real);
    const TimeNs began = clock->now();
    TR_ASSIGN_OR_RETURN(const Samples samples, run_places(places, which, options));
    took += clock->now() - began;
    take_samples(own, samples, options, times, report);
  }
  report.seconds = to_seconds(took);
  cost::OpTimes of_job;
  for (const auto& [key, node] : nodes)
    if (const cost::OpTime* time = times.find(key, options.at_once)) of_job.put(key, options.at_once, *time);
  report.families = cost::efficiencies(of_job, options.at_once, machine, report.threads);
  return report;
}

}  // namespace trireme::measure
