// Training runs on virtual machines, one after the other, that share the disk of rank 0's machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/runtime/virtual/world.h"
#include "trireme/train/train_rank.h"

namespace trireme::train::testing {

struct RunOptions {
  std::string run_dir = "run";       // "": nothing is read or written
  std::int64_t stop_at = 0;          // asked to stop while it runs the step after this one; 0: never
  std::string transport = "inproc";  // shm: all ranks are on one machine
};

struct RunOutcome {
  std::vector<Result<record::Summary>> ranks;
  std::vector<record::Progress::Step> steps;  // of this start
  std::vector<record::Progress::Evaluation> evaluations;
  bool killed = false;  // rank 0

  // Rank 0's; a failed run fails the test and gives the empty one.
  record::Summary summary() const;
};

class VirtualRuns {
 public:
  // Runtimes are numbered in order: those of the first run, of the second...
  explicit VirtualRuns(std::vector<runtime::FaultSpec> faults = {},
                       std::vector<runtime::DiskFault> disk = {});
  VirtualRuns(cost::MachineModel machine, cost::LinkModel link);

  // What `trireme train --run-dir` does, with job.parallel.workers ranks. A folder whose run is finished
  // gives its summary.
  RunOutcome train(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                   const RunOptions& options = {});
  std::string read(const std::string& path);  // "": missing
  // The lines of metrics.jsonl without their times.
  std::vector<Json> metrics(const std::string& run_dir = "run");
  // The newest of the run; none fails the test.
  io::Checkpoint checkpoint(const std::string& run_dir = "run");
  void sleep(TimeNs duration);

 private:
  void run(runtime::Runtime& rt, runtime::Task<void> task);
  runtime::Runtime& add(int machine);

  cost::MachineModel machine_;
  cost::LinkModel link_;
  std::unique_ptr<runtime::VirtualWorld> world_;
  int num_runtimes_ = 0;
};

}  // namespace trireme::train::testing
