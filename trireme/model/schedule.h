// Schedules: learning rate and batch as pure functions of globally completed samples, never of a worker's own
// step count.
//
// With p = done / total, w = warmup and q = (p - w) / (1 - w), the rate after the warm-up is lr times
//   constant     1
//   step         factor^k, k milestones being at or before p (shares of the whole run)
//   cosine       f + (1 - f) (1 + cos(pi q)) / 2, f = final_share (Loshchilov and Hutter 2017, eq. 5)
//   polynomial   f + (1 - f) (1 - q)^power
//   exponential  factor^q: lr factor is reached at the end
//   one-cycle    as cosine to f = 1 / (start_divisor 1e4), and its warm-up (0.3 unless given) is half a
//                cosine up from 1 / start_divisor: PyTorch's OneCycleLR without its cycle of momentum
//                (Smith 2018)
// and before it, unless one-cycle, rises linearly from lr warmup_start, which is not zero: the first step
// counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::model {

struct Schedule {
  std::string kind = "constant";
  double lr = 0.1;
  double warmup = 0;                    // share of the run
  double warmup_start = 0.05;           // share of lr at the first sample
  double final_share = 0;               // cosine, polynomial
  double factor = 0.1;                  // step, exponential
  double power = 1;                     // polynomial
  double start_divisor = 25;            // one-cycle
  std::vector<double> milestones = {};  // step: ascending shares of the run

  // Linear scaling (Goyal et al. 2017): above 0, lr belongs to this batch; the peak is lr batch /
  // reference_batch and a warm-up starts from lr itself.
  std::int64_t batch = 0, reference_batch = 0;

  // Above 1: instead of decaying the rate the batch grows, by whole multiples up to this one (Smith et al.
  // 2018, "Don't decay the learning rate, increase the batch size"). Rate / batch is that of the decaying
  // schedule.
  std::int64_t max_batch_multiplier = 1;
};

struct SchedulePoint {
  double lr = 0;
  std::int64_t batch_multiplier = 1;
};

struct ScheduleRow {
  const char* name;
  const char* doc;
  // Share of the peak rate after the warm-up: of the whole run's progress p and of what is left, q.
  double (*share)(const Schedule& s, double p, double q);
};
std::span<const ScheduleRow> schedule_table();

// Names, ranges, and what belongs together.
Status check_schedule(const Schedule& schedule);
// For the step that begins after `done` of `total` samples. The schedule has passed check_schedule.
SchedulePoint schedule_at(const Schedule& schedule, std::int64_t done, std::int64_t total);
// What velocities are multiplied with before a step where the rate is inside them (Goyal et al. 2017, remark
// 2): the rate of this step over that of the last; 1 where there was none.
double velocity_factor(const Schedule& schedule, std::int64_t last_done, std::int64_t done,
                       std::int64_t total);

}  // namespace trireme::model
