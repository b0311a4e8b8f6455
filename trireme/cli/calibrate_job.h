// `trireme calibrate JOB`: what the nodes of a job's graphs take on this host.
#pragma once

#include "trireme/cli/inspect/parts.h"
#include "trireme/cost/calibration.h"
#include "trireme/measure/ops/op_times.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {

struct CalibrateJobArgs {
  InspectSource model;
  std::string mesh;
  int workers = 0;  // as the job says
  bool again = false, quick = false;
  // Something is said of a job; without, the machine alone is measured.
  bool is_given() const {
    return !model.source.path.empty() || !model.source.sets.empty() || !model.shape.empty() ||
           !mesh.empty() || model.classes > 0 || model.batch > 0 || workers > 0 || again;
  }
};
void add_calibrate_job(Options& app, CalibrateJobArgs& args);

struct JobCalibration {
  InspectedModel model;
  measure::OpTimesReport report;
};
// Into `calibration`. Blocks the loop of `rt`, which it runs.
Result<JobCalibration> calibrate_job(runtime::RealRuntime& rt, const CalibrateJobArgs& args,
                                     const std::function<void(const std::string&)>& doing,
                                     cost::Calibration& calibration);
std::string to_text(const JobCalibration& job);
Json to_json(const JobCalibration& job);

}  // namespace trireme::cli
