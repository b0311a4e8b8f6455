// A training job whose ranks this process starts on this host: as threads of it, or as processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/job/job.h"
#include "trireme/start/places.h"
#include "trireme/start/run_observer.h"
#include "trireme/start/trouble.h"

namespace trireme::start {

struct HostRun {
  job::Job job;
  std::string run_dir;  // empty: runs/<name>-<n> in the current folder
  std::string command;  // what run.json says; empty: the command line of this process
  Places places;
  // The words that start a process of the program which calls run_rank() with the folder as `prepared_dir`
  // (run_rank.h). An empty first word is this program. Ranks are processes where there are several and
  // parallel.transport is not inproc.
  std::function<std::vector<std::string>(const std::string& run_dir)> rank_command = {};
  std::vector<SlowRank> slow = {};
  std::vector<RankFault> faults = {};
  RunObserver observer = {};
};

struct Trained {
  Json summary;  // as in summary.json; "finished" is false for a run that was stopped on request
  std::string run_dir;
};

// Loads the data, opens the run folder (a run that is unfinished there is resumed, one that is finished is
// returned), starts the ranks and blocks until all of them ended. While it trains, an interrupt asks the
// ranks to save and stop. A failure names the ranks that failed, and what each said.
Result<Trained> train_on_host(const HostRun& run);

}  // namespace trireme::start
