// Op times of a job: what the nodes of its graphs take on this host, measured while as many ranks run as will
// in training.
//
// Whole graphs run, on synthetic tensors (place_runs.h), so a time has in it what the nodes before leave in
// the caches, and what ranks that compute at the same time take of the memory. Rejected: nodes one by one,
// with operands that rotate through memory; what of a layer's operands lies in the caches in a step is known
// only by running the step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/cost/rates.h"
#include "trireme/job/job.h"
#include "trireme/prepare/prepare.h"

namespace trireme::measure {

using Places = std::vector<std::shared_ptr<const prepare::Prepared>>;

// The graphs of every place of a replica: of the stages, and of the tiles of each.
Result<Places> prepare_places(const job::Job& job, const model::ModelInput& input,
                              prepare::PrepareOptions options);

struct OpTimesOptions {
  int at_once = 1;     // runs that compute at the same time, each on the threads of a shard
  bool again = false;  // measure what is known too
  int least_runs = 3;  // after one that warms up
  int most_runs = 50;
  TimeNs enough = 2 * kSecond;  // of a place, beyond the least
  std::function<void(const std::string&)> doing = [](const std::string&) {};
};

struct OpTimesReport {
  int at_once = 1, threads = 1;
  int nodes = 0;     // different ones in the job's graphs
  int known = 0;     // of them, that were measured before
  int measured = 0;  // now
  // Varied by more than kSteady: what is new stands, what was known before is kept.
  std::vector<std::string> unsteady;
  double seconds = 0;                            // that measuring took
  std::vector<cost::FamilyEfficiency> families;  // of the nodes of this job
};
inline constexpr double kSteady = 0.3;

using NodesByKey = std::map<std::string, cost::NodeWork>;
using SamplesByKey = std::map<std::string, std::vector<double>>;  // seconds of a call, per run
// Into `times` goes the median of every node that was not known, or of all of them (`again`), as kSteady
// says.
void take_samples(const NodesByKey& nodes, const SamplesByKey& samples, const OpTimesOptions& options,
                  cost::OpTimes& times, OpTimesReport& report);

// Blocks; runs threads of its own. Into `times` goes what is missing. `machine`: what efficiencies are in
// relation to.
Result<OpTimesReport> measure_op_times(const Places& places, const OpTimesOptions& options,
                                       const cost::MachineModel& machine, cost::OpTimes& times);

// Runs that compute at the same time in training: of the ranks of this host, and of each.
int runs_at_once(const prepare::Prepared& prepared, const cost::Rates& rates);

}  // namespace trireme::measure
