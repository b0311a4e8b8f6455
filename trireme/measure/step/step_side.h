// StepSide: a process that trains when it is asked to (ours or PyTorch's, see step_server.h) and waits
// without using a processor otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/runtime/processes.h"

namespace trireme::measure {

struct StepSideSpec {
  std::string name;               // also of its files
  std::string dir;                // an existing folder for the socket and the log
  std::vector<std::string> argv;  // the socket's path is appended
  TimeNs patience = 0;            // for one answer: a compiler may be at work
};

class StepSide {
 public:
  virtual ~StepSide() = default;  // ends what still runs
  virtual const std::string& name() const = 0;
  virtual const std::string& about() const = 0;  // what it said when it was ready
  // The rest of the answer that begins with `word`. After a failure the side is of no more use.
  virtual runtime::Task<Result<std::string>> ask(std::string line, std::string word) = 0;
  virtual runtime::Task<Result<std::vector<double>>> steps_ms(int count) = 0;
  virtual runtime::Task<void> stop() = 0;
};

// Starts the process and waits until it is ready. A failure says how it ended and the last lines it wrote.
runtime::Task<Result<std::unique_ptr<StepSide>>> start_step_side(runtime::Runtime& rt, StepSideSpec spec);

}  // namespace trireme::measure
