// StepTotals: what a rank measured of its steps so far.
#pragma once

#include <algorithm>
#include <map>

#include "trireme/engine/step.h"
#include "trireme/record/pipeline_report.h"
#include "trireme/train/choose_again.h"

namespace trireme::train {

class StepTotals {
 public:
  // A step that took `step_ns`.
  void add(const engine::StepOutput& out, TimeNs step_ns);
  // Samples of a step times the shards that this rank's replica had.
  void add_shard_samples(std::int64_t samples) { shard_samples_ += samples; }
  // What is waited for behind a step.
  void add_exposed(TimeNs time) { exposed_ns_ += time; }

  TimeNs compute_ns() const { return compute_ns_; }
  TimeNs exposed_ns() const { return exposed_ns_; }
  TimeNs axis_ns() const { return axis_ns_; }
  TimeNs data_ns() const { return data_ns_; }
  std::int64_t shard_samples() const { return shard_samples_; }
  // Pipelines that never drain: the ages of the weights that micro-batches read -> how many of them.
  const std::map<std::int64_t, std::int64_t>& ages() const { return ages_; }
  // Means of a step. In the first ones ranks wait for others that are not ready yet: where there are enough
  // behind them they do not count.
  record::StageShare share_of_stage(int stage) const;

 private:
  struct Stepped {
    std::int64_t steps = 0;
    TimeNs busy_ns = 0, step_ns = 0;
  };
  TimeNs compute_ns_ = 0, exposed_ns_ = 0, axis_ns_ = 0, data_ns_ = 0;
  Stepped all_, first_;
  std::int64_t kept_bytes_ = 0, shard_samples_ = 0;
  std::map<std::int64_t, std::int64_t> ages_;
};

// What the run tells of its stages. Collective.
runtime::Task<Result<record::PipelineReport>> report_stages(runtime::Runtime& rt, comm::Group& group,
                                                            const prepare::Prepared& prepared,
                                                            const StepTotals& totals);

}  // namespace trireme::train
