// What prices and predictions are made of, measured on this host: one core, its memory, transports between
// two ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/cost/calibration.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"

namespace trireme::measure {

struct CalibrateOptions {
  std::vector<std::string> transports;  // rows of net/table.cc
  bool quick = false;                   // few repetitions, to see that it works
  std::string temp_dir = "/tmp";        // for folders in which ranks meet
  std::function<void(const std::string&)> doing = [](const std::string&) {};  // "measuring the memory ..."
};

// kInvalid names a transport that cannot be measured.
Status check_transports(const std::vector<std::string>& names);

// Takes a second or two, and about one per transport. Blocks the loop of `rt` while it measures.
runtime::Task<Result<cost::Calibration>> calibrate(runtime::Runtime& rt, CalibrateOptions options);

// What an earlier run on the same host measured of jobs, and of transports that this one leaves out, stays.
void keep_others(const cost::Calibration& before, cost::Calibration& now);

}  // namespace trireme::measure
