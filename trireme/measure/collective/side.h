// Side: the processes of one system under measurement (ours, Open MPI, Gloo), one per rank or one for all,
// that wait without using a processor until the driver asks them to measure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/measure/collective/work.h"
#include "trireme/runtime/processes.h"

namespace trireme::measure {

struct SideSpec {
  std::string name;  // "ours", "mpi", "gloo"; also of its files in `dir`
  std::string dir;   // an existing folder for the socket and the log
  int world = 1;
  // What to start; the socket's path is appended to every argv.
  std::vector<runtime::ProcessSpec> processes;
  TimeNs arrival = 60 * kSecond;  // for every rank to be ready
};

class Side {
 public:
  virtual ~Side() = default;  // ends what still runs
  virtual const std::string& name() const = 0;
  // Time of each call in microseconds, that of its slowest rank. After a failure the side is of no more use.
  virtual runtime::Task<Result<std::vector<double>>> measure(Work work) = 0;
  // Nanoseconds of one crossing of the start line, over many: how far apart the cores of the ranks are now.
  // Ours only.
  virtual runtime::Task<Result<double>> crossing_ns() = 0;
  // Orderly end; what does not end by itself is killed with the object.
  virtual runtime::Task<void> stop() = 0;
};

// Starts the processes and waits until every rank is ready. The failure says how the processes ended and the
// last lines they wrote.
runtime::Task<Result<std::unique_ptr<Side>>> start_side(runtime::Runtime& rt, SideSpec spec);

}  // namespace trireme::measure
