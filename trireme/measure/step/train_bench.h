// `trireme bench train`: training steps of ours and of PyTorch in one run, alternating.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/measure/step/workloads.h"
#include "trireme/runtime/runtime.h"

namespace trireme::measure {

struct TrainBenchOptions {
  std::vector<const Workload*> workloads;
  std::vector<std::string> dtypes = {"f32"};
  int threads = 1;
  int rounds = 5;
  double seconds = 1;  // of a side's round, about; at least one step
  bool quick = false;
  bool torch = false, compile = true;  // PyTorch eager; and compiled
  bool ceiling = true, profile = false;
  int ahead = 0;  // PyTorch's processes that start at once before all lines; 0: each with its line
  std::string device = "cpu";  // or cuda
  std::string binary, python, script;
  double patience_seconds = 1800;  // for one answer: compiling takes minutes
};

struct StepTiming {
  double median_ms = 0, low_ms = 0, high_ms = 0;  // quartiles over the rounds
  std::vector<double> rounds_ms;                  // median of each
  std::int64_t peak_bytes = 0;
};
StepTiming summarise_rounds(std::vector<double> rounds_ms);

struct TrainRow {
  const Workload* workload = nullptr;
  std::string dtype, device;
  std::int64_t batch = 0;
  StepTiming ours;
  std::optional<StepTiming> eager, compile;
  std::string eager_absent, compile_absent;  // why there is none
  std::string torch_version;
  Json kernels, profile, gaps;  // as step_server.h has them; null: not asked for

  // The faster of PyTorch's; null: none was measured.
  const StepTiming* best_torch() const;
  std::optional<double> ratio() const;                            // best PyTorch / ours
  std::optional<std::pair<double, double>> ratio_spread() const;  // quartiles of the ratios of the rounds
  std::optional<double> ceiling() const;                          // best PyTorch / the least time of ours
  std::optional<std::int64_t> torch_peak_bytes() const;           // the lower of PyTorch's
};

// Before minutes are spent: is there a PyTorch, and the script that measures it? `dir` takes its log.
runtime::Task<Status> check_torch(runtime::Runtime& rt, const TrainBenchOptions& options, std::string dir);

// `dir` is an empty folder. A line per event goes to `say`; a row to `on_row` as soon as it is there. Peers
// that cannot run are named in the rows; ours must.
runtime::Task<Result<std::vector<TrainRow>>> run_train_bench(runtime::Runtime& rt, TrainBenchOptions options,
                                                             std::string dir,
                                                             std::function<void(const std::string&)> say,
                                                             std::function<void(const TrainRow&)> on_row);

}  // namespace trireme::measure
