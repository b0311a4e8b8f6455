// Faults that strike a rank of a pipeline at random moments, and what all others say of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"
#include "trireme/start/simulate.h"

namespace trireme::train::testing {

// Three replicas, so that two of them know better than the third, of three stages; six segments, six
// micro-batches each. Rank 5 is (data 1, stage 2).
inline constexpr int kFaultWorld = 9;
job::Job pipeline_job(const std::string& timetable, std::int64_t zero = 0);

// The run of a timetable without a fault: what it trains to, and how long it takes.
struct HealthyRun {
  job::Job job;
  std::shared_ptr<const data::Dataset> data;
  std::string hash;
  TimeNs end = 0;
};
HealthyRun healthy_run(const std::string& timetable, std::int64_t zero = 0);

struct PipelineFault {
  runtime::FaultSpec spec;
  bool ends_the_run = true;  // false: the bits are those of the healthy run
  TimeNs allowed = 0;        // from the fault to the end of the last rank
};
PipelineFault draw_pipeline_fault(std::uint64_t seed, const HealthyRun& healthy);

start::SimulateReport run_with_fault(const HealthyRun& healthy, const PipelineFault& fault,
                                     std::uint64_t seed);
// One error on all ranks that live, with the culprit's place, the operation and the reason, in time; or the
// bits of the healthy run.
void expect_one_end(const HealthyRun& healthy, const PipelineFault& fault,
                    const start::SimulateReport& report, std::uint64_t seed);

}  // namespace trireme::train::testing
